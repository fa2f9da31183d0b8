// The executors of one step, one for each part, and what the kinds of steps have in common.
//
// A set is leased to one step at a time (signature/signature.h). What begins, runs and ends a step
// is its kind: a caller who waits in the step's lane (blocking_step.h), a callback (async_step.h),
// a caller who feeds and fetches piece by piece (partial_step.h), or a master in another process
// (remote_step.h). The set starts the parts, counts their ends, and keeps the step's error and
// results; local_transport.h delivers its messages. What tells a step to end, and the answer that
// is given before it has ended, stand in stop.cc.
//
//   state      event                                     action                                            next
//   free       a blocking Run of the library's kernels,
//              without deadline and token, all parts
//              in this process                        1 run_step to each executor, through the lane      in its lane
//   free       any other call                         2 run_step to each executor (async_step.h)         running
//   in its lane, running  Stop of this step           3 keep the error, tell kernels and executors      as before
//   in its lane, running  Stop of an older step       4 nothing                                         as before
//   in its lane  the last part is done                5 wake the lane, which answers                    free
//   running    the last part is done                  6 answer                                          free
//   running    it was stopped 50 ms ago               7 answer, with what has not returned              answered
//   answered   the last part is done                  8 nothing is told any more                        free
//
// A step is answered once: when its last part is done, or earlier if it was told to end (deadline,
// token, Close) and did not within 50 ms (watch/step_watch.h). A step that was answered early goes
// on in the background. Until its kernels have returned it keeps its set, its signature, the
// runtime, its feeds and its results.
//
// When no memory is left to begin a step, none of its parts begins, and the call is answered with
// RESOURCE_EXHAUSTED (tests/cast/no_memory.cc). Ending a step needs no memory
// (threads/no_memory.h).
//
// Thread rule: the thread that has leased the set runs a step of it. Abort, Stop, usable, nodes_run
// and what the parts tell come from any thread.
//
// Tests of the edges, tests/cast/lane_test.cc:
//   1, 5     edges_1_and_5_a_blocking_run_has_its_step_in_its_lane
//   3        edge_3_a_step_in_its_lane_that_is_told_to_end_keeps_the_error
// and tests/cast/executor_test.cc:
//   2, 6     edge_2_a_tensor_rings_the_bell_of_its_receiver
// and tests/cast/asynchronous_test.cc:
//   3, 7, 8  a_step_that_is_told_to_end_is_answered_after_its_grace_and_goes_on_in_the_background
// and tests/actors/turns_test.cc:
//   4        a_stop_that_comes_late_leaves_the_next_step_alone
#ifndef TROUPE_ACTORS_STEP_EXECUTOR_SET_H_
#define TROUPE_ACTORS_STEP_EXECUTOR_SET_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/watch/call_wait.h"
#include "actors/executor/executor_actor.h"
#include "actors/executor/tensor_bits.h"
#include "actors/signature/feed_values.h"
#include "actors/threads/lane.h"
#include "actors/step/async_step.h"
#include "actors/step/local_transport.h"
#include "actors/step/remote_parts.h"
#include "actors/step/step_cost.h"
#include "actors/watch/step_watch.h"
#include "troupe/session.h"

namespace troupe {

struct NumericsCheck;
class Signature;
class UpdateLog;

class alignas(64) ExecutorSet : public StepGroup, public StepListener, public Cancellable {
 public:
  ExecutorSet(Signature* signature, caf::actor_system& system);
  ~ExecutorSet() override;

  const Signature& signature() const { return *signature_; }
  // Whether it is not known of all that the step runs when it returns: there are kernels of users,
  // or parts in other processes.
  bool user_kernels() const { return user_kernels_; }
  // Of the parts that this process runs.
  const std::vector<std::shared_ptr<Executor>>& executors() const { return executors_; }
  // The parts that other processes run; null: there are none.
  RemoteParts* remote() const { return remote_.get(); }
  // Whether there is nothing to run.
  bool empty() const { return shares_ == 0; }
  StepCost& cost() { return cost_; }
  AsyncStep& async() { return async_; }
  LocalTransport& transport() { return *transport_; }
  // False when an executor is dead; the set must then not be used again.
  bool usable() const;
  bool running() const { return parts_left_.load() > 0; }
  int64_t step_id() const { return step_id_.load(std::memory_order_acquire); }
  // The number of nodes that the parts have run since the set was made.
  int64_t nodes_run() const;
  // The step's fetches and targets, for messages.
  std::string Describe() const;

  // Ending a step (stop.cc). Both end step `step_id`, also before its parts have been started;
  // nothing happens when the step is over. After Abort the watch gives the answer if the step does
  // not end in time; after Stop the caller has to see to the answer. REQUIRES: the set lives.
  void Abort(int64_t step_id, const absl::Status& status);
  void Stop(int64_t step_id, const absl::Status& status);
  // For the watch, under its lock.
  bool unanswered(int64_t step_id) const { return owed_.load() == step_id; }
  bool AnswerEarly(int64_t step_id, const std::vector<std::string>& lines, EarlyAnswer* answer);
  void OnCancel() override;

  // StepGroup.
  const EdgeTable& edges() const override;
  caf::execution_unit* Home() override;
  TurnThreads* Elsewhere() const override { return elsewhere_; }
  std::shared_ptr<std::atomic<int64_t>> long_turn() const override { return long_turn_; }
  // Whether the step that runs is short, and all that it calls the library's: then the network's
  // thread runs its executors, and its end, when a message makes them go on
  // (threads/loop_turns.h).
  bool in_loop() const { return in_loop_.load(std::memory_order_relaxed); }
  // So many bytes have come from another process for the step that runs. With more of them than in
  // the steps that were short it is not for the network's thread any more.
  void Came(int64_t bytes) {
    if (came_.fetch_add(bytes, std::memory_order_relaxed) + bytes > short_with_.load(std::memory_order_relaxed))
      in_loop_.store(false, std::memory_order_relaxed);
  }
  // Whether the step that is over ends on this thread: not in the network's, if its results are to
  // be copied, and are big.
  bool MayEndHere() const;

  // StepListener.
  void PartDone(uint32_t part, part_done& message) override;
  void PartFails(uint32_t part, const absl::Status& status) override;
  void ResultCame(uint32_t index, Tensor value) override;

  // What other processes tell of their parts (remote_steps.h). REQUIRES: the caller has a share of
  // the step's count, which these give back, and the set may be gone on return.
  void RemoteDone(size_t task, parts_done&& message);
  void RemoteTells(step_letter&& message);
  void RemoteLost(int64_t step_id, const absl::Status& status);

  // For the kinds of steps, on the thread that has leased the set unless they say otherwise.
  //
  // Begins a step: it has a number from here on, and may be stopped. `feeds` must stay where they
  // are until Finish. `answers`: the watch may answer for the step before its end.
  // REQUIRES: Renew.
  void Begin(Step* step, const FeedValues& feeds, bool answers);
  // A context of the step's own. Throws std::bad_alloc.
  void Renew();
  // Registers the step with its token and with the watch, and the reverse.
  void Guard(const CancellationToken* token, const Deadline& deadline) noexcept;
  // The step checks itself for NaN and infinities, if `options` say so. REQUIRES: Begin.
  void CheckNumerics(const RunOptions& options) noexcept {
    if (options.check_numerics) [[unlikely]]
      BeginNumerics(options.numerics_folder);
  }
  void EndGuard();
  // The step is over: neither a token nor the watch may know the set any more. True when nobody has
  // answered for it.
  bool TakeAnswer();
  // Starts the parts, all or none: none when there is no memory for it, which is the step's error.
  // REQUIRES: Guard.
  void Launch(caf::execution_unit* home, bool stats) noexcept;
  void LaunchElsewhere(bool stats) noexcept;
  // For a step with parts in other processes, between Begin and its launch. `waits`: only the
  // library hears of its end.
  void LetRunInLoop(const FeedValues& feeds, bool waits) noexcept;
  // The calling thread counts as one part more, until CountDown; for steps that it works on.
  void CountUp() { parts_left_.fetch_add(1, std::memory_order_relaxed); }
  // So many parts are done. True when none is left: the set is the caller's from then on, on any
  // thread. False: it may be gone.
  bool CountDown(int parts) { return parts_left_.fetch_sub(parts, std::memory_order_acq_rel) == parts; }
  // Makes the calling thread the lane of the executors, until LeaveLane.
  void EnterLane();
  void LeaveLane();
  Lane& lane() { return lane_; }
  // Works along with the step's jobs until the lane has something to run, or it is time to sleep.
  void HelpJobs();
  // The step's status and its outputs. DATA_LOSS when the step failed by its check for NaN and
  // infinities, and there was no memory to take all of its updates back.
  absl::Status Finish(std::vector<Tensor>* outputs);
  // The same without outputs: results were told one by one.
  absl::Status FinishPartial();
  // The same of a step whose master is another process: the results that there are, by index, and,
  // of a step that checks itself, what its updates have replaced.
  absl::Status FinishForMaster(std::vector<std::pair<uint32_t, Tensor>>* results, std::shared_ptr<UpdateLog>* updates);
  void FillMetadata(const RunOptions& options, proto::RunMetadata* metadata) const noexcept;

 private:
  void EndExecutors();
  void LaunchRemote(caf::execution_unit* home) noexcept;
  // The step is over for those who tell of remote parts.
  void EndRemote();
  // Of a part that has not left them in the set's memory.
  void TakeResults(uint32_t part, part_done& message);
  void DropResources();
  void BeginNumerics(const std::string& folder) noexcept;
  // Takes back the step's updates if it failed by its check.
  void EndNumerics();
  bool RenewLate() noexcept;
  // Where a part of a step with statistics keeps them.
  std::vector<node_run>* TimingsOf(int part);
  // What other processes have measured, in this one's clock.
  void AddRemoteStatistics(proto::RunMetadata* metadata) const;
  // Records how long the step's turns and jobs took, and with which feeds. REQUIRES: the step is
  // over, and its arguments are still there.
  void Measure();
  absl::Status HandOver(std::vector<Tensor>* outputs);
  // The first error, from any thread. A step without an error only reads the flag.
  bool SetError(const absl::Status& status);
  absl::Status TakeError();
  // The same for a step that has not begun its parts: they see it when they begin.
  void FailBegin(const absl::Status& status);

  Signature* const signature_;
  caf::actor_system& system_;
  TurnThreads* const elsewhere_;  // where executors run that no lane has; null: under the scheduler
  Lane lane_;
  bool user_kernels_ = false;
  bool quick_kernels_ = true;  // those of this process are the library's, and wait for nobody
  std::vector<std::shared_ptr<Executor>> executors_;
  std::shared_ptr<LocalTransport> transport_;
  std::shared_ptr<RemoteParts> remote_;
  int shares_ = 0;  // parts here, and tasks elsewhere: who must be done for the step to be over
  std::shared_ptr<StepContext> context_;
  Step* step_ = nullptr;  // the kind of the step that runs or was the last to run
  std::atomic<bool> in_lane_{false}, in_loop_{false};
  const std::shared_ptr<std::atomic<int64_t>> long_turn_ = std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<int64_t> came_{0}, short_with_{0};  // bytes from other processes
  std::atomic<int64_t> step_id_{0};
  std::atomic<int> stops_{0};          // threads in Stop
  std::atomic<int64_t> owed_{0};       // the step that has not been answered, nor its answer taken by who will
  int64_t next_id_ = 0, last_id_ = 0;  // numbers for coming steps
  std::vector<Tensor> arguments_, results_;
  std::vector<bits::Loan> loans_;  // by argument
  std::vector<std::vector<node_run>> timings_;
  int64_t timed_since_ = 0;  // of a step with statistics: when it began
  struct RemoteStatistics {
    std::string bytes;  // of a RunMetadata
    int64_t heard_nanos = 0;
  };
  std::vector<RemoteStatistics> remote_statistics_;  // by task
  std::shared_ptr<NumericsCheck> numerics_;          // null: the step does not check itself
  std::atomic<int> parts_left_{0};
  std::mutex mu_;  // guards status_, remote_statistics_, and context_ against Stop
  absl::Status status_;
  std::atomic<bool> failed_{false};
  std::optional<Cancellation> cancellation_;
  bool watched_ = false;
  StepCost cost_;
  AsyncStep async_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_STEP_EXECUTOR_SET_H_
