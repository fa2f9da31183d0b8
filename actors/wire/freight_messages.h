// Tensors that are too big for a message between processes: the message goes as a note, in which
// they are holes, and their bytes follow in pieces when the receiver has room for them.
//
//   from      to        message        means
//   sender    receiver  freight_note   this message has tensors of these types and shapes
//   receiver  sender    freight_go     I have room for them: send
//   sender    receiver  freight_piece  some bytes of one of them
//   receiver  sender    freight_taken  a piece has been dealt with
//   receiver  sender    freight_returned  memory that was leased is not used any more
//   receiver  sender    freight_drop   nobody waits for them (any more)
//   sender    receiver  freight_gone   they do not come (any more)
//
// All go from worker to worker, and name the processes by their incarnations: `from` is that of the
// sender of the tensors, `to` that of their receiver. Who does what with them: step/freight_out.h
// and step/freight_in.h.
//
// A piece is read on the thread of the network, and its bytes straight into the tensor, if that
// tensor has a berth and the piece fits into it; otherwise they are skipped. So no message takes
// memory for the bytes that it brings.
//
// The bytes of a piece come in the message; or, between processes of one host, they lie in memory
// that both can read (same_host/shared_pool.h), and the message has the ticket of their slot. The
// note offers that memory, and the go says whether it is within reach. A tensor that is big enough
// is one piece, and stays where it lies: in memory that its sender leases to the receiver
// (same_host/leases.h).
//
// Thread rule: a message belongs to whoever has it; berths are thread safe.
#ifndef TROUPE_ACTORS_WIRE_FREIGHT_MESSAGES_H_
#define TROUPE_ACTORS_WIRE_FREIGHT_MESSAGES_H_

#include <caf/all.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "actors/same_host/shared_pool.h"
#include "actors/wire/remote_messages.h"

namespace troupe {

// The messages that carry tensors from process to process.
using freight_message = std::variant<run_parts, parts_done, part_letter, step_letter>;

// A tensor's place among those of the message, and what it is.
struct freight_hole {
  uint32_t place = 0;
  uint8_t dtype = 0;
  std::vector<int64_t> dims;
  uint64_t bytes = 0;  // that travel
};
struct freight_note {
  uint64_t from = 0, to = 0;
  uint64_t number = 0;  // of this note among those of `from`
  uint32_t piece = 0;   // bytes of each piece, except for the last one of a tensor
  pool_offer pool;
  std::vector<freight_hole> holes;
  freight_message message;
};
struct freight_go {
  uint64_t from = 0, to = 0, number = 0;
  bool shared = false;  // the pool of the note is within reach
};
struct freight_piece {
  uint64_t from = 0, to = 0, number = 0;
  uint32_t hole = 0;  // its index
  uint64_t offset = 0;
  uint32_t size = 0;
  uint64_t ticket = 0;   // where its bytes lie in the pool, or in `lease`; 0: they come with it
  Tensor source;         // of one that is sent and brings its bytes: whose they are
  bool taken = false;    // of one that has come: its bytes are in their tensor
  pool_offer lease;      // memory of its own for the ticket, which its receiver gives back; or none
  bool adopted = false;  // of one that has come: its tensor lies in the lease
};
struct freight_taken {
  uint64_t from = 0, to = 0;
  uint64_t ticket = 0;  // of the piece
};
struct freight_returned {
  uint64_t from = 0, to = 0;
  uint64_t ticket = 0;   // of the piece that was leased
  bool refused = false;  // its memory was not within reach: nothing is to be leased any more
};
struct freight_drop {
  uint64_t from = 0, to = 0, number = 0;
};
struct freight_gone {
  uint64_t from = 0, to = 0, number = 0;
  absl::Status status;  // not OK: the step is to fail with it; OK: it has ended for another reason
};

// Calls f for each tensor of the message, in the order of their places.
template <class F>
void ForEachTensor(freight_message& message, F&& f) {
  if (auto* run = std::get_if<run_parts>(&message)) {
    for (auto& [index, value] : run->arguments) f(value);
  } else if (auto* done = std::get_if<parts_done>(&message)) {
    for (auto& [index, value] : done->results) f(value);
  } else if (auto* to_part = std::get_if<part_letter>(&message)) {
    if (auto* t = std::get_if<tensor_to_part>(&to_part->message)) f(t->value);
    if (auto* a = std::get_if<argument>(&to_part->message)) f(a->value);
  } else if (auto* to_step = std::get_if<step_letter>(&message)) {
    if (auto* r = std::get_if<result>(&to_step->message)) f(r->value);
  }
}

// Where the bytes of one tensor go as they come.
//
// Thread rule: thread safe.
class FreightBerth {
 public:
  // REQUIRES: `tensor` has so many bytes, in one block. `pool`: where pieces may lie; or null.
  // `adopt`: the bytes of a lease as a buffer; null: there is none. Not given: pieces that are
  // leased do not fit.
  using AdoptFn = std::function<Buffer*(const pool_offer& lease, uint64_t ticket, uint64_t bytes)>;
  FreightBerth(Tensor tensor, uint64_t bytes, uint32_t piece, std::shared_ptr<const SharedView> pool = nullptr,
               AdoptFn adopt = nullptr);
  static uint64_t Pieces(uint64_t bytes, uint32_t piece) { return bytes / piece + (bytes % piece != 0 ? 1 : 0); }
  static uint32_t SizeAt(uint64_t bytes, uint32_t piece, uint64_t offset) {
    return static_cast<uint32_t>(std::min<uint64_t>(piece, bytes - offset));
  }
  // Where a piece belongs; each is given its place once. Null: no piece of that size begins there,
  // or it has come before.
  char* Claim(uint64_t offset, uint32_t size);
  // The whole tensor lies where it is leased from now on; or, if that cannot be mapped, has a copy.
  // Sets `taken` and `adopted`: not if its bytes are not within reach, or some have come before.
  void Adopt(freight_piece* piece);
  const Tensor& tensor() const { return tensor_; }
  const SharedView* pool() const { return pool_.get(); }

  // The berths of the process, by name of the piece.
  struct Name {
    uint64_t to = 0, from = 0, number = 0;
    uint32_t hole = 0;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  static void Open(const Name& name, std::shared_ptr<FreightBerth> berth);
  static void Close(const Name& name);
  static std::shared_ptr<FreightBerth> Find(const Name& name);

 private:
  Tensor tensor_;
  const uint64_t bytes_;
  const uint32_t piece_;
  const std::shared_ptr<const SharedView> pool_;
  const AdoptFn adopt_;
  std::mutex mu_;
  std::vector<bool> claimed_;
};

// The strings of a tensor in one block of bytes, and back. INVALID_ARGUMENT for bytes that are no
// strings of this shape; RESOURCE_EXHAUSTED.
absl::StatusOr<Tensor> PackStrings(const Tensor& strings);
absl::StatusOr<Tensor> UnpackStrings(const Tensor& bytes, const TensorShape& shape);

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, pool_offer& x) {
  return f(x.pid, x.fd, x.key[0], x.key[1], x.slot, x.slots);
}
caf::error inspect(caf::serializer& f, freight_hole& x);
caf::error inspect(caf::deserializer& f, freight_hole& x);
caf::error inspect(caf::serializer& f, freight_note& x);
caf::error inspect(caf::deserializer& f, freight_note& x);
caf::error inspect(caf::serializer& f, freight_piece& x);
caf::error inspect(caf::deserializer& f, freight_piece& x);
caf::error inspect(caf::serializer& f, freight_gone& x);
caf::error inspect(caf::deserializer& f, freight_gone& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, freight_go& x) {
  return f(x.from, x.to, x.number, x.shared);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, freight_taken& x) {
  return f(x.from, x.to, x.ticket);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, freight_returned& x) {
  return f(x.from, x.to, x.ticket, x.refused);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, freight_drop& x) {
  return f(x.from, x.to, x.number);
}

}  // namespace troupe

// Beside those of messages/messages.h.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_freight, first_custom_type_id + 600)
CAF_ADD_TYPE_ID(troupe_freight, (troupe::freight_note))
CAF_ADD_TYPE_ID(troupe_freight, (troupe::freight_go))
CAF_ADD_TYPE_ID(troupe_freight, (troupe::freight_piece))
CAF_ADD_TYPE_ID(troupe_freight, (troupe::freight_taken))
CAF_ADD_TYPE_ID(troupe_freight, (troupe::freight_drop))
CAF_ADD_TYPE_ID(troupe_freight, (troupe::freight_gone))
CAF_ADD_TYPE_ID(troupe_freight, (troupe::freight_returned))
CAF_END_TYPE_ID_BLOCK(troupe_freight)

#endif  // TROUPE_ACTORS_WIRE_FREIGHT_MESSAGES_H_
