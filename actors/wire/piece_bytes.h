// The bytes of pieces (freight_messages.h) go straight between a connection and their tensors.
//
// Problem: CAF writes a message into a buffer of its connection, and reads it from one. A tensor
// would be copied two times more than the socket copies it.
//
// Contract, of who sends: the connection says Await before CAF writes into its buffer. A piece that
// is written there leaves room for its bytes, and a splice that says which they are; the connection
// sends them in place of the room. A splice has a share in its tensor until then.
//
// Contract, of who receives: the connection shows a PieceReader the first bytes of each big
// message. If they are those of a piece that has a berth, the reader says where the rest of the
// message belongs, and the connection reads it there. It hands CAF a message of the same size whose
// last bytes are anything, while the reader is Arrived: the piece counts as taken.
//
// What travels is the same with and without.
//
// Thread rule: all calls for a connection on the thread that reads and writes it.
#ifndef TROUPE_ACTORS_WIRE_PIECE_BYTES_H_
#define TROUPE_ACTORS_WIRE_PIECE_BYTES_H_

#include <caf/all.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "actors/wire/freight_messages.h"

namespace troupe {

class PieceSplices {
 public:
  // Fewer bytes are copied.
  static constexpr uint32_t kFewest = 32 << 10;
  struct Splice {
    size_t begin = 0;  // in the buffer
    size_t size = 0;
    const char* bytes = nullptr;
    Tensor source;
    size_t end() const { return begin + size; }
  };
  explicit PieceSplices(const std::vector<char>* buffer) : buffer_(buffer) {}
  // What this thread writes next may go into the buffer of `splices`.
  static void Await(const std::shared_ptr<PieceSplices>& splices);
  // True: there is room for the bytes of `piece`, which is being written. REQUIRES: it has them.
  static bool LeaveRoom(caf::serializer& f, const freight_piece& piece);
  // Of the buffer as it is now, in order of their beginnings; taken with what it has.
  std::deque<Splice>& splices() { return splices_; }

 private:
  const std::vector<char>* const buffer_;
  std::deque<Splice> splices_;
};

class PieceReader {
 public:
  // Of the connections of `system`. Without memory, and where CAF reads messages on threads of its
  // own, it knows no piece.
  explicit PieceReader(caf::actor_system& system);
  // How many bytes of a message it has to see; 0: it does not know that message.
  size_t Head(size_t message) const;
  // Whether what has begun with these bytes, so many as Head said, is a piece whose bytes belong
  // to to(). Each is told once: whoever asks reads it.
  bool Begin(const char* head, size_t message);
  char* to() const { return to_; }
  // While it lives, the thread reads the message of which all bytes have come.
  class Arrived {
   public:
    explicit Arrived(const PieceReader& reader);
    ~Arrived();
    Arrived(const Arrived&) = delete;
    Arrived& operator=(const Arrived&) = delete;
  };
  // Its bytes have been read already.
  static bool HasRead(const freight_piece& piece);
  void End();

 private:
  std::vector<char> prefix_;  // of a message that is a piece
  size_t head_ = 0;           // with what names the piece
  std::shared_ptr<FreightBerth> berth_;
  freight_piece piece_;
  char* to_ = nullptr;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_PIECE_BYTES_H_
