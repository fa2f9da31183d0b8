// The tensors that this process sends to others and that are too big for a message.
//
// A message with such tensors goes as a note (wire/freight_messages.h). The note waits here with
// its tensors, whose bytes the program has anyway. When the receiver has room, pieces go out: of
// all notes to one process together at most so many that it has not dealt with yet, a piece of each
// note in turn. So a receiver that is slow, or stopped, costs its sender these pieces and no more;
// and other messages, heartbeats first of all, pass between them.
//
//   state (of one note)  event                                       action                          next
//   (none)   Send, a tensor is big                      1 the note to the receiver               announced
//   announced  freight_go                               2 it takes its turns                     going
//   going    a turn, and less than the most pieces are under way
//                                                       3 the next piece, its bytes in a slot of the pool if the receiver
//                                                         can read that, a whole tensor in memory of its own if there is
//                                                         such; after the last of all, forget it     going, or (none)
//   announced, going  EndStep: its step has ended here  4 freight_gone                           (none)
//   announced, going  freight_drop                      5 forget it                              (none)
//   announced, going  its receiver went, or the worker there
//                                                       6 forget it, and what was under way      (none)
//   announced, going  the worker here died, and with it what it was told; there is no memory for a piece
//                                                       7 freight_gone with the reason           (none)
//   (none)   freight_go, freight_drop                   8 nothing                                (none)
//
// freight_taken lets one more piece go to its sender, never more than the most, and frees its slot;
// freight_returned frees the memory of a whole tensor.
//
// Thread rule: thread safe. No lock is held while messages are sent.
//
// Tests of the edges, tests/remote/freight_test.cc:
//   1, 2, 3  edges_1_to_3_a_big_tensor_travels_in_pieces
//   4        out_edge_4_a_step_that_ends_frees_both_sides
//   6        edge_6_a_process_that_goes_frees_both_sides
//   7        edges_7_and_9_a_worker_that_dies_frees_both_sides
//   8        out_edge_8_what_is_unknown_changes_nothing
// and tests/remote/freight_in_test.cc:
//   5        in_edge_5_a_note_for_nobody_is_dropped
#ifndef TROUPE_ACTORS_STEP_FREIGHT_OUT_H_
#define TROUPE_ACTORS_STEP_FREIGHT_OUT_H_

#include <atomic>
#include <caf/all.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "actors/same_host/leases.h"
#include "actors/same_host/shared_pool.h"
#include "actors/wire/freight_messages.h"
#include "troupe/compute_threads.h"

namespace troupe {

class FreightOut {
 public:
  struct Limits {
    // A tensor of more bytes travels in pieces. Below it the question whether there is room costs
    // more than the pieces save.
    uint64_t big = uint64_t{256} << 10;
    uint32_t piece = uint32_t{512} << 10;
    int under_way = 4;  // pieces to one process
    // To a process of this host pieces go by way of shared memory (same_host/shared_pool.h): so
    // many slots, of which each has a piece. Such memory for so many processes at most at a time.
    bool share = true;
    uint32_t slot = uint32_t{1} << 20;
    uint32_t slots = 8;
    size_t pools = 32;
    // Tensors of at least so many bytes, except for bools, are leased as they are.
    uint64_t lease = uint64_t{1} << 20;
  };
  // Whose tensors: master, step, and the number of the task that sends; kMasters for the master's
  // own.
  using Owner = std::tuple<uint64_t, int64_t, uint32_t>;
  static constexpr uint32_t kMasters = ~0u;

  // `mine`: the incarnation of this process. `threads`: share in copying what is leased; or null.
  FreightOut(caf::actor_system* system, uint64_t mine, std::shared_ptr<ComputeThreads> threads)
      : system_(*system), mine_(mine), threads_(std::move(threads)) {}
  void set_limits(const Limits& limits);

  // Whether a tensor of the message is too big for it.
  bool IsBig(freight_message& message) const;
  // Sends a message to the worker `to` of the process with this incarnation, with all of its
  // tensors. `from`: the worker here that hears from the receiver. With an `owner` the tensors are
  // let go of when that ends. INVALID_ARGUMENT, RESOURCE_EXHAUSTED: the message cannot be sent.
  // `number`: of the note; 0 when there was no need of one.
  absl::Status Send(const caf::actor& to, uint64_t incarnation, freight_message&& message,
                    const std::optional<Owner>& owner, const caf::strong_actor_ptr& from, uint64_t* number);
  void Go(const freight_go& message);
  void Taken(const freight_taken& message);
  void Returned(const freight_returned& message);
  void Drop(const freight_drop& message);
  // No tensor of this owner is needed any more.
  void EndStep(const Owner& owner) noexcept;
  void PeerWent(uint64_t incarnation);
  // The memory for a process that went while a message to it was made, after PeerWent.
  void ForgetPool(uint64_t incarnation) noexcept;
  // The worker of this process died.
  void Fail(const absl::Status& why) noexcept;

  // Notes, and the pieces to all processes that are under way.
  size_t size() const;
  int under_way() const;
  // Whether there are any. Takes no lock.
  bool busy() const { return busy_.load(std::memory_order_relaxed); }
  // Slots of all pools that have bytes which their readers have not dealt with.
  uint32_t slots_taken() const;
  Leases& leases() { return leases_; }
  // Bytes that have gone in pieces so far, by the way they took.
  uint64_t bytes_in_messages() const { return in_messages_.load(std::memory_order_relaxed); }
  uint64_t bytes_in_shared_memory() const { return in_shared_memory_.load(std::memory_order_relaxed); }

 private:
  struct Note {
    uint64_t to = 0;
    caf::actor worker;
    caf::strong_actor_ptr from;
    std::optional<Owner> owner;
    std::vector<Tensor> tensors;
    std::vector<bool> whole;           // by tensor: it may be leased
    std::vector<Lease> leases;         // likewise; or none, of all
    std::shared_ptr<SharedPool> pool;  // that was offered; null: none
    uint32_t piece = 0;                // bytes
    size_t hole = 0;                   // of the next piece
    uint64_t offset = 0;               // likewise
    bool going = false, shared = false;
    // The note is on its way to the network. Who lets go of it meanwhile leaves it to the sender,
    // so that what says so does not overtake it.
    bool sending = true;
    std::optional<absl::Status> gone;  // said meanwhile
  };
  struct Link {
    int under_way = 0;
    std::list<uint64_t> turns;  // notes that are going
  };
  struct Piece {
    caf::actor worker;
    caf::strong_actor_ptr from;
    freight_piece message;
    std::shared_ptr<SharedPool> pool;  // of its ticket
    Lease lease;                       // likewise
  };
  // The memory that a process was offered.
  struct Pool {
    std::shared_ptr<SharedPool> pool;  // null: there is none to be had, or it was given back
    bool declined = false;             // it cannot read it; what had said that it can goes on
  };
  using Notes = std::map<uint64_t, Note>;
  using Pools = std::map<uint64_t, Pool>;
  // After a change of notes_ or links_, under the lock.
  void Count() { busy_.store(!notes_.empty() || !links_.empty(), std::memory_order_relaxed); }
  // Sends what may go to a process.
  void Pump(uint64_t to);
  freight_piece Next(uint64_t number, Note* note, Lease* lease) const;
  // Memory for the tensors of these sizes; of 0, none.
  std::vector<Lease> LeasesFor(uint64_t to, const std::vector<uint64_t>& sizes);
  // Null: there is none for this process.
  std::shared_ptr<SharedPool> PoolFor(uint64_t to);
  // Under the lock: the memory of one who declined it, when nobody uses it any more.
  static std::shared_ptr<SharedPool> GiveBack(Pool* pool);
  void FillSlot(Piece* piece) const;
  Notes::node_type Take(Notes::iterator it);
  // Under the lock: to `gone`, whose receivers are to be told; or its sender tells that.
  void LetGo(Notes::iterator it, const absl::Status& why, Notes* gone);
  bool TakeTurns(uint64_t to, std::vector<Piece>* pieces);
  void GiveUp(uint64_t to, uint64_t number, const Piece& piece, const absl::Status& why);
  void TellGone(uint64_t number, const Note& note, const absl::Status& status) noexcept;

  caf::actor_system& system_;
  const uint64_t mine_;
  const std::shared_ptr<ComputeThreads> threads_;
  mutable std::mutex mu_;  // guards the rest
  Limits limits_;
  uint64_t last_ = 0;
  Notes notes_;
  std::map<uint64_t, Link> links_;  // by incarnation
  Pools pools_;                     // likewise
  std::atomic<bool> busy_{false};   // there are notes, or links
  Leases leases_;
  std::set<uint64_t> not_leased_;  // incarnations that cannot use what is leased
  std::atomic<uint64_t> in_messages_{0}, in_shared_memory_{0};
};

// As SendRemote, but what there is no memory for is said also when the receiver is in another
// process.
absl::Status SendFar(caf::actor_system& system, const caf::actor& to, const caf::strong_actor_ptr& from,
                     caf::mailbox_element_ptr element);
template <class Message>
absl::Status SendFar(caf::actor_system& system, const caf::actor& to, Message message,
                     const caf::strong_actor_ptr& from) try {
  if (!to) return Unavailable("the other process is not there");
  if (to.node() == system.node()) {
    TROUPE_ASSIGN_OR_RETURN(message, wire::ThroughBytes(system, message));
  } else if constexpr (requires { CheckCross(message); }) {
    TROUPE_RETURN_IF_ERROR(CheckCross(message));
  }
  return SendFar(system, to, from,
                 caf::make_mailbox_element(from, caf::make_message_id(), caf::no_stages, std::move(message)));
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("no memory for a message");
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_FREIGHT_OUT_H_
