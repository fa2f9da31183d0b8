// Keeps steps that update state or fill queues from beginning while a snapshot of their session is
// taken, so that it is a cut between steps: no step is in it by half. Which steps these are says
// queue_use.h.
//
//   state   event                                  action                                        next
//   open    an updating step begins             1 nothing                                       open
//   open    a snapshot shuts the gate           2 wait until no updating step is under way      shut
//   shut    a blocking Run of updates           3 wait until the gate is open, the call's
//                                                 deadline or token ends it, or the session     shut
//   shut    a RunAsync of updates               4 queue the call; the same ends it, on the
//                                                 clock's thread (step_watch.h)                 shut
//   shut    an updating step is over            5 wake the snapshot, which looks again          shut
//   shut    the snapshot is taken, or has
//           waited too long                     6 begin what is queued                          open
//   shut    the snapshot shuts it further       7 hold steps of higher levels, too              shut
//
// Levels. A step that takes elements from a queue ends only if others go on filling it. So steps
// have levels (step_cut.h), and the gate is shut for one level after the other: first for 0, the
// steps that update and fill no queue.
//
// A step that is under way has a set of executors, leased from its signature. Whoever begins a step
// leases first and looks at the gate then; whoever shuts it shuts first and looks at the sets then.
// So one of the two sees the other. A step reads one word that nobody writes while no snapshot is
// taken.
//
// Steps that neither update state nor fill a queue pass: one that only waits for elements is
// not waited for. An open partial run of updates is waited for.
//
// Thread rule: all methods are thread safe.
//
// Tests of the edges, tests/monitored/step_gate_test.cc:
//   1, 2, 6  edges_1_and_2_and_6_a_snapshot_waits_for_steps_of_updates_alone
//   3, 5     edges_3_and_5_a_run_waits_for_the_snapshot_and_the_snapshot_for_a_step
//   3        edge_3_a_run_that_waits_is_ended_by_its_deadline_its_token_and_close
//   4        edge_4_a_call_that_is_queued_begins_or_is_ended
//   4        edge_4_queued_calls_end_with_the_session
//   7        edge_7_higher_levels_pass_until_the_gate_is_shut_for_them
#ifndef TROUPE_ACTORS_SNAPSHOT_STEP_GATE_H_
#define TROUPE_ACTORS_SNAPSHOT_STEP_GATE_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/watch/call_wait.h"
#include "actors/watch/step_watch.h"

namespace troupe {

class StepGate {
 public:
  // `closed`: whether the session is. `watch`: of its calls.
  StepGate(std::shared_ptr<std::atomic<bool>> closed, std::shared_ptr<StepWatch> watch)
      : closed_(std::move(closed)), watch_(std::move(watch)) {}

  static constexpr int kAllLevels = std::numeric_limits<int>::max();
  bool shut() const { return shut_.load(std::memory_order_seq_cst) != 0; }
  // Whether steps of this level wait; negative: those never do.
  bool Holds(int level) const { return level >= 0 && level < shut_.load(std::memory_order_seq_cst); }
  // Returns when the gate is open. CANCELLED, DEADLINE_EXCEEDED: the call ended before.
  absl::Status Wait(const Deadline& deadline, const CancellationToken* token, int level = 0);
  // Calls `begin` with OK when the gate is open, or with what ended the call. False: it is open.
  // The token need not live longer than this call. Throws std::bad_alloc where memory is lacking;
  // `begin` is not called then.
  bool Queue(const Deadline& deadline, const CancellationToken* token, std::function<void(absl::Status)> begin,
             int level = 0);
  // Ends all calls that are queued: the session is closed. On a thread on which users' callbacks
  // may run.
  void EndQueued();
  // A step is over that the gate would hold.
  void StepOver();

  // Shuts the gate for level 0, waits until `busy` gives 0, calls `work` and opens the gate; one
  // caller at a time. `busy` may shut it for all levels below a number (ShutBelow), higher each
  // time. DEADLINE_EXCEEDED when steps, or another caller, are still under way after `at`, and
  // CANCELLED when the session is closed; `work` is not called then.
  absl::Status WhileShut(SteadyTime at, const std::function<int()>& busy, const std::function<absl::Status()>& work);
  // For `busy`, which then shuts it again: all that wait begin, or wait anew at their level of now.
  void Reopen() { Open(); }
  void ShutBelow(int level) { shut_.store(level, std::memory_order_seq_cst); }

 private:
  // A call that is queued.
  class Call;
  // What ends a call that waits; OK while nothing does.
  absl::Status Ended(const Deadline& deadline, const CancellationToken* token) const;
  void Open();
  std::vector<std::shared_ptr<Call>> TakeQueue(bool open);

  const std::shared_ptr<std::atomic<bool>> closed_;
  const std::shared_ptr<StepWatch> watch_;
  std::atomic<int> shut_{0};  // holds steps of lower levels
  std::timed_mutex one_;      // held by who has shut it
  std::mutex mu_;
  std::condition_variable changed_;
  // Guarded by mu_. Those that have ended leave the queue when the gate is opened, or when it is so
  // long.
  std::vector<std::shared_ptr<Call>> queue_;
  size_t look_through_ = 64;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SNAPSHOT_STEP_GATE_H_
