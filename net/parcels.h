// What is too big for one message travels in pieces: CAF makes a message from bytes, and bytes from
// a message, on the thread of the network, where a long one would hold up the heartbeats of all
// servers. A parcel is the bytes of a message; so many pieces of it are under way at a time, and so
// many parcels: the others wait for their turn. Who is sent a parcel takes no more of them.
//
//   state (of one parcel)  message        action                                next
//   (none)                 Send         1 the first pieces; or none yet         under way, or waiting
//   waiting                (room)       8 the first pieces                      under way
//   under way              piece_taken  2 the next piece; after the last room   under way, or (none) after the last
//   under way, waiting     Drop         3 room                                  (none)
//   (none)                 piece        4 keep it; piece_taken                  coming
//   coming                 piece        5 add it; piece_taken                   coming, or (none) with the whole
//   coming                 Drop         6 let go of it                          (none)
//   any                    piece that does not fit, or of one parcel too many
//                                       7 let go of it: an error                (none)
//
// Memory is taken as the pieces come. Thread rule: each belongs to its actor.
//
// Tests of the edges, tests/net/parcels_test.cc:
//   1, 2, 4, 5  edges_1_and_2_and_4_and_5_a_parcel_travels_in_pieces
//   3, 6        edges_3_and_6_what_is_dropped_is_gone
//   7           edge_7_pieces_that_do_not_fit_are_errors
//   1, 8        edge_8_parcels_wait_for_their_turn
#ifndef TROUPE_NET_PARCELS_H_
#define TROUPE_NET_PARCELS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include "net/client_messages.h"

namespace troupe {

class ParcelsOut {
 public:
  static constexpr size_t kPiece = size_t{1} << 20;
  static constexpr int kUnderWay = 8;

  static constexpr size_t kMost = 16;  // under way at a time

  // Each returns the pieces that are to be sent now, in this order.
  std::vector<parcel_piece> Send(uint64_t call, parcel_piece::Kind kind,
                                 std::shared_ptr<const std::vector<char>> bytes);
  std::vector<parcel_piece> Taken(uint64_t call);
  // The other side has to hear of it before it gets what this returns.
  std::vector<parcel_piece> Drop(uint64_t call);
  bool Has(uint64_t call) const { return parcels_.contains(call); }
  void Clear();
  size_t size() const { return parcels_.size(); }

 private:
  struct Parcel {
    parcel_piece::Kind kind;
    std::shared_ptr<const std::vector<char>> bytes;
    size_t sent = 0;
    int not_taken = 0;  // pieces
    bool waits = true;
  };
  static std::optional<parcel_piece> Next(uint64_t call, Parcel* p);
  void Start(std::vector<parcel_piece>* pieces);
  std::map<uint64_t, Parcel> parcels_;
  std::deque<uint64_t> waiting_;
};

class ParcelsIn {
 public:
  static constexpr size_t kMost = ParcelsOut::kMost;  // at a time

  // The whole parcel with its last piece. INVALID_ARGUMENT, RESOURCE_EXHAUSTED.
  absl::StatusOr<std::optional<std::vector<char>>> Take(parcel_piece piece);
  void Drop(uint64_t call) { parcels_.erase(call); }
  bool Has(uint64_t call) const { return parcels_.contains(call); }
  void Clear() { parcels_.clear(); }
  size_t size() const { return parcels_.size(); }

 private:
  struct Parcel {
    parcel_piece::Kind kind;
    uint64_t total = 0;
    std::vector<char> bytes;
  };
  std::map<uint64_t, Parcel> parcels_;
};

// How many bytes these tensors have, about.
uint64_t BytesOf(const std::vector<const Tensor*>& tensors);
// And the answer of a call.
uint64_t BytesOf(const call_answer& answer);

// A message as bytes, and back. INVALID_ARGUMENT when it cannot be.
template <class Message>
absl::StatusOr<std::shared_ptr<const std::vector<char>>> ToParcel(caf::actor_system& system, Message& message) {
  auto bytes = std::make_shared<std::vector<char>>();
  caf::binary_serializer out(system, *bytes);
  if (caf::error e = out(message)) return InvalidArgument("it cannot be sent: ", system.render(e));
  return std::shared_ptr<const std::vector<char>>(std::move(bytes));
}
template <class Message>
absl::Status FromParcel(caf::actor_system& system, const std::vector<char>& bytes, Message* message) {
  caf::binary_deserializer in(system, bytes);
  if (caf::error e = in(*message)) return InvalidArgument("it cannot be read: ", system.render(e));
  if (in.remaining() != 0) return InvalidArgument(in.remaining(), " bytes of it were not read");
  return absl::OkStatus();
}

}  // namespace troupe

#endif  // TROUPE_NET_PARCELS_H_
