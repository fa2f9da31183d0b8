// The tensors that other processes send to this one and that are too big for a message.
//
// A note announces a message with such tensors (wire/freight_messages.h). It is kept here until the
// step that it is for has begun and there is room; then the tensors get their memory and their
// berths, and the sender is told to go. When all pieces have come, the message is whole and is
// handed on as if it had come by itself.
//
//   state (of one note)  event                                     action                                 next
//   (none)   freight_note for a step that has begun            1 memory, freight_go, when there is room  coming, or waiting
//   (none)   freight_note for a step that may begin            2 keep it                                 early
//   early    Begin: the step has begun                         3 as 1                                    coming, or waiting
//   waiting  another note of the same sender is whole, or gone 4 as 1                                    coming, or waiting
//   coming   freight_piece                                     5 freight_taken; of a lease, when its tensor goes,
//                                                                freight_returned; with the last piece the message is
//                                                                whole, and is handed on               coming, or (none)
//   any      freight_note, or freight_piece, that does not fit; no memory; freight_gone with a reason
//                                                              6 freight_drop; the message is lost: its step fails
//                                                                with the reason                       (none)
//   any      Abort: its step is to end                         7 freight_drop; a parts_done comes by itself, without its
//                                                                results                               (none)
//   any      End: its step is over                             8 freight_drop                          (none)
//   any      its sender went, or the worker here died          9 the message is lost                   (none)
//   any      freight_gone without a reason                    10 forget it; a run_parts is refused     (none)
//   (none)   freight_piece                                    11 freight_taken                         (none)
//
// Of one sender notes of so many bytes are coming at a time, or one note of more; so what has its
// memory and waits for its bytes is bounded, but the size of a tensor is not.
//
// What is handed on keeps its order where that matters: parts_done waits for the results of the
// same task that are still coming (HoldBack).
//
// Thread rule: thread safe. No lock is held while messages are sent.
//
// Tests of the edges, tests/remote/freight_in_test.cc:
//   2, 3     in_edges_2_and_3_a_note_waits_for_its_step
//   4        in_edge_4_notes_wait_for_room
//   6        in_edge_6_what_does_not_fit_ends_its_step_and_nothing_else
//   8        in_edge_5_a_note_for_nobody_is_dropped
//   11       in_edge_6_what_does_not_fit_ends_its_step_and_nothing_else
// and tests/remote/freight_test.cc:
//   1, 5     edges_1_to_3_a_big_tensor_travels_in_pieces
//   7        out_edge_4_a_step_that_ends_frees_both_sides
//   9        edge_6_a_process_that_goes_frees_both_sides
//   9        edges_7_and_9_a_worker_that_dies_frees_both_sides
//   10       out_edge_4_a_step_that_ends_frees_both_sides
#ifndef TROUPE_ACTORS_STEP_FREIGHT_IN_H_
#define TROUPE_ACTORS_STEP_FREIGHT_IN_H_

#include <caf/all.hpp>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/wire/freight_messages.h"

namespace troupe {

class Directory;

class FreightIn {
 public:
  struct Limits {
    uint64_t bytes = uint64_t{1} << 30;  // that are coming from one sender at a time
    size_t notes = size_t{1} << 16;
    bool share = true;  // pieces may lie in memory of their sender's
  };
  // A step as it is known here: master, number, and the task whose parts it is; kOwn: a step of
  // this process's own.
  using Key = std::tuple<uint64_t, int64_t, uint32_t>;
  static constexpr uint32_t kOwn = ~0u;
  // A message that is to be handed on.
  struct Whole {
    Key key;
    std::string task;            // of this process, whose worker had the note
    caf::strong_actor_ptr from;  // who sent the note
    freight_message message;
    absl::Status lost;              // not OK: its tensors do not come
    std::vector<parts_done> after;  // what waited for it
  };
  using Wholes = std::vector<Whole>;

  FreightIn(caf::actor_system* system, uint64_t mine, std::shared_ptr<const Directory> directory);
  ~FreightIn();
  FreightIn(const FreightIn&) = delete;
  FreightIn& operator=(const FreightIn&) = delete;
  void set_limits(const Limits& limits);

  // The memory that a note offers; null: none, or none within reach. Takes a while, so that it is
  // to be called without locks.
  std::shared_ptr<const SharedView> View(const freight_note& note);
  // Each returns what is to be handed on now. `task`: whose worker has the note, from `from`.
  // `begun`: otherwise the note waits for Begin. `pool`: its View.
  Wholes Announce(const std::string& task, freight_note&& note, const caf::strong_actor_ptr& from, const Key& key,
                  bool begun, std::shared_ptr<const SharedView> pool);
  Wholes Begin(const Key& key);
  Wholes Arrived(const freight_piece& piece, const caf::strong_actor_ptr& from);
  Wholes Gone(const freight_gone& message);
  Wholes PeerWent(uint64_t incarnation, const absl::Status& why);
  Wholes Fail(const absl::Status& why);
  // The step of a note for which nobody waits.
  void Refuse(const freight_note& note, const caf::strong_actor_ptr& from) noexcept;
  void Abort(const Key& key) noexcept;
  void End(const Key& key) noexcept;
  // True: the message is kept, and handed on after what is coming of the same task.
  bool HoldBack(const Key& key, parts_done* message);

  size_t size() const;
  uint64_t coming_bytes() const;

 private:
  using Name = std::pair<uint64_t, uint64_t>;  // sender, number
  struct Note {
    Whole whole;
    std::vector<freight_hole> holes;
    std::vector<TensorShape> shapes;
    std::vector<std::shared_ptr<FreightBerth>> berths;
    std::shared_ptr<const SharedView> pool;  // where pieces may lie; or null
    uint32_t piece = 0;
    uint64_t bytes = 0, pieces_left = 0;
    bool begun = false, coming = false;
  };
  struct Link {
    uint64_t bytes = 0;  // that are coming
    size_t coming = 0;   // notes
    std::deque<uint64_t> waiting;
  };
  struct Letter {
    caf::strong_actor_ptr to;
    std::string task;
    freight_go go;
    bool drop = false;
  };
  class Returns;  // what is leased, and to whom it goes back
  struct Turn;    // what a call has to send, and to hand on, without the lock
  using Notes = std::map<Name, Note>;
  using Views = std::map<uint64_t, std::shared_ptr<const SharedView>>;

  static absl::Status Check(freight_note* note, Note* kept);
  absl::Status Start(const Name& name, Note* note);
  FreightBerth::AdoptFn AdoptFor(const Name& name, const Note& note, DType dtype) const;
  void StartSome(uint64_t from, Turn* turn);
  void Queue(const Name& name, Note* note, Turn* turn);
  // Out of the list, with its berths and its share of the room.
  Note Take(Notes::iterator it, Turn* turn);
  static absl::Status Fill(Note* note);
  // To the worker of this process, for its next turn: the call may have the lock of those who would
  // take it now.
  void Post(Whole&& whole) noexcept;
  void Post(const Letter& letter) noexcept;

  caf::actor_system& system_;
  const uint64_t mine_;
  const std::shared_ptr<const Directory> directory_;
  const std::shared_ptr<Returns> returns_;
  mutable std::mutex mu_;  // guards the rest
  Limits limits_;
  Notes notes_;
  std::map<uint64_t, Link> links_;  // by sender
  Views views_;                     // likewise
  std::atomic<size_t> size_{0};     // of notes_: who finds none needs no lock
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_FREIGHT_IN_H_
