// The executor: an actor around one StepState.
//
//   state      message                action                                                               next
//   free       run_step {arguments} 1 Begin, Drain                                                         running
//   running    doorbell             2 take the arrivals (tensors, finished kernels, aborts, questions), Drain  running
//   running    tokens {token}       3 Deliver, Drain (one-message-per-token mode)                          running
//   running    go_on                4 Drain again: the turn before gave way to others                      running
//   running    (nothing is left)    5 Finish; part_done to the step                                        free
//   free       doorbell, go_on      6 arrivals of a step that is over are counted and dropped              free
//   free       exit                 7 nothing to tell; a run_step that comes now fails with ABORTED        dead
//   running    exit                 8 part_done with ABORTED                                   dead
//   free       the group goes      10 no bell is rung from here on; exit follows                         dead
//   dead       anything             9 dropped; the set is not leased again, the next lease makes a new one dead
//
// An exception that is the executor's own (there was no memory) ends its step with that error, and
// the executor counts as dead from then on.
//
// The executor replies to no message: its group tells the caller. Blocks: in its kernels only; so
// the scheduler does not resume it, except under a test's clock. Owner: its set, which is leased to
// one step at a time. Dies: with its set, or when it is killed. During a step an executor has a
// home, the execution unit that resumes it: its caller's lane, or the compute threads. Messages to
// it name that home.
//
// Thread rule: stated at each method.
//
// Tests of the edges, tests/cast/executor_test.cc:
//   1, 5  edges_1_and_5_one_part_runs_in_one_turn
//   2     edge_2_a_tensor_rings_the_bell_of_its_receiver
//   3     edge_3_every_token_is_a_message_in_the_debugging_mode
//   4     edge_4_a_long_turn_gives_way_to_others
//   2, 6  edge_2_an_abort_reaches_every_part_and_edge_6_late_ones_are_dropped
//   7     edge_7_a_free_executor_that_is_killed_is_replaced_at_the_next_lease
//   7     edge_7_a_step_that_meets_a_dying_executor_fails
//   8, 9  edges_8_and_9_an_executor_killed_in_mid_step_fails_the_step_and_ends_the_other_part
//   10    edge_10_who_goes_on_when_the_group_is_gone_rings_no_bell
#ifndef TROUPE_ACTORS_EXECUTOR_EXECUTOR_ACTOR_H_
#define TROUPE_ACTORS_EXECUTOR_EXECUTOR_ACTOR_H_

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/mailbox_element.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/executor/step_state.h"
#include "actors/wire/part_messages.h"
#include "graph/core/hash_map.h"

namespace troupe {

class Executor;
class TurnThreads;

// What the executors of one step share.
class StepGroup {
 public:
  virtual ~StepGroup() = default;
  virtual const EdgeTable& edges() const = 0;
  // The execution unit that resumes this step's executors: the lane, in the form that the calling
  // thread must name, or the compute threads (threads/turn_threads.h). Null is the scheduler.
  virtual caf::execution_unit* Home() = 0;
  // The compute threads, for the group's life; null is the scheduler.
  virtual TurnThreads* Elsewhere() const = 0;
  // How long the longest turn in the network's thread was that took longer than any should there,
  // in nanoseconds; whoever reads it sets it to zero.
  virtual std::shared_ptr<std::atomic<int64_t>> long_turn() const = 0;
};

// The part of the executor that is not the actor, and outlives it: closures of running kernels may
// hold it when the actor is dead.
class Executor : public StepHost, public std::enable_shared_from_this<Executor> {
 public:
  // Part `address` of its group's steps.
  Executor(std::shared_ptr<const CompiledPart> part, PartAddress address, StepGroup* group,
           std::shared_ptr<PartTransport> transport)
      : group_(group), address_(address), transport_(std::move(transport)), state_(std::move(part), this) {}
  ~Executor() override { delete abort_.load(); }

  // Spawns the actor. Called once.
  void Spawn(caf::actor_system& system);
  const caf::actor& actor() const { return actor_; }
  caf::resumable* resumable() const { return resumable_; }
  PartAddress address() const { return address_; }
  bool dead() const { return dead_.load(std::memory_order_acquire); }

  // Makes the messages that begin and end a step, so that neither needs memory any more. Throws
  // std::bad_alloc. From the thread that leases the executor, as Start.
  void Prepare(run_step&& message);
  // Sends run_step. REQUIRES: Prepare.
  void Start(caf::execution_unit* home) noexcept;
  // The group goes: on return no thread uses it any more, nor will one. Arrivals that come later
  // are dropped. REQUIRES: no step runs.
  void LeaveGroup() noexcept;
  // Ends the step from any thread.
  void Abort(int64_t step_id, const absl::Status& status) noexcept;
  // Takes a message for the step that runs or is about to begin. From any thread.
  void Receive(part_message message);
  // Sends `arrival` (takes ownership) from any thread.
  void Post(Arrival* arrival) noexcept;
  StepState& state() { return state_; }
  // The sum of the executor's turns in the last step. REQUIRES: that step is over, and was timed.
  int64_t turn_nanos() const { return turn_nanos_; }
  // True when a step was begun and has not had its first turn. From any thread.
  bool starting() const { return starting_.load(std::memory_order_relaxed); }

  // In the executor's turn, for the actor's handlers.
  void OnRunStep(const StepInput& input);
  void OnDoorbell();
  void OnToken(Token token);
  void OnContinue() { Go(); }
  void OnKilled();
  // For threads/loop_turns.h.
  void ResumeElsewhere() noexcept;
  std::shared_ptr<std::atomic<int64_t>> long_turn() const { return group_->long_turn(); }
  // Ends the step with this status, if it has not ended; the executor counts as dead from now on.
  void End(const absl::Status& status);

  // StepHost.
  void RingDoorbell() override;
  const EdgeTable& edges() const override { return group_->edges(); }
  absl::Status SendToPart(part_message message) override;
  std::shared_ptr<void> KeepAlive() override { return shared_from_this(); }
  void PartFails(const absl::Status& status) override;
  void PostToken(Token token) override;
  void ResultReady(uint32_t index, Tensor value) override;
  void Answer(stall_report report) override { transport_->ToStep(address_, std::move(report)); }

 private:
  void Go();
  // Says that the part is done; by whoever owes it.
  void Done(absl::Status status, StepInput&& input = {});
  void Ring() noexcept;
  // The doorbell's message, made if it is not there. Throws std::bad_alloc.
  caf::mailbox_element_ptr TakeBell();
  void RingBell(caf::mailbox_element_ptr bell) noexcept;

  // Gone when the executor has left it, while the actor may live until its exit message is handled.
  // Kernels that run outside of the turn, and whoever admits one to a variable, may answer as late
  // as that: under in_group_ they see that dead_ is set, and let the group alone.
  StepGroup* const group_;
  const PartAddress address_;
  const std::shared_ptr<PartTransport> transport_;  // uses the group as well, except for reports
  StepState state_;
  caf::actor actor_;
  caf::resumable* resumable_ = nullptr;
  std::mutex in_group_;
  int64_t step_id_ = 0;
  bool owes_ = false;  // in the turn: the end of a step that has begun
  int64_t turn_nanos_ = 0;
  // Messages that are made before they are needed. The doorbell belongs to the thread whose arrival
  // is the first since arrivals were taken; the turn makes the next one before it takes them.
  caf::mailbox_element_ptr run_step_, doorbell_;
  std::atomic<Arrival*> abort_{nullptr};
  // Set while a run_step is on its way. If the actor dies first, the thread that clears the flag
  // reports the part.
  std::atomic<bool> starting_{false};
  std::atomic<bool> dead_{false};
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_EXECUTOR_ACTOR_H_
