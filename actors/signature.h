// A compiled signature: one choice of feeds, fetches and targets, with its compiled parts and the
// executors that are free to run it.
//
// A step is answered once: when its last part is done, or before that when it was told to end
// (deadline, token, Close) and has not within 50 ms (step_watch.h). A step that was answered early
// goes on in the background; until its kernels have returned it keeps its set, signature and
// runtime, what it is fed and what it makes.
//
//   state      event                                     action                                            next
//   free       a blocking Run that the lane may have   1 run_step to each executor, through the lane     in its lane
//   free       RunAsync, PartialRun, another Run       2 run_step to each executor (lend.cc)             running
//   in its lane, running  Stop of this step            3 keep the error, tell kernels and executors      as before
//   in its lane, running  Stop of an older step        4 nothing                                         as before
//   in its lane  the last part is done                 5 wake the lane, which answers                    free
//   running    the last part is done                   6 answer                                          free
//   running    it was stopped 50 ms ago                7 answer, with what has not returned              answered
//   answered   the last part is done                   8 nothing is told any more                        free
//
// A blocking Run gives its own thread to a step only if it gets it back in time: without deadline
// and token to any step of the library's own kernels, which return, and to one with users' kernels
// that took 10 ms at most before; with a deadline or token to one of the library's kernels that
// took 1 ms at most with feeds that were as big as these in every dimension. Otherwise the step is
// asynchronous and the caller waits for the answer. What a step costs may depend on more than the
// sizes of its feeds (their values, what variables hold); a limited step that was in its lane for
// longer than 1 ms is asynchronous the next time, and measured then. While a kernel has the lane,
// neither Close nor a deadline is seen.
//
// Thread rule: Lease, Release and the Run functions are thread safe. Nothing hot is shared: a set
// of executors belongs to one step at a time, and free sets wait in slots that threads take from
// different ends.
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
#ifndef TROUPE_ACTORS_SIGNATURE_H_
#define TROUPE_ACTORS_SIGNATURE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "actors/call_wait.h"
#include "actors/executor/executor_actor.h"
#include "actors/executor/tensor_bits.h"
#include "actors/feed_values.h"
#include "actors/lane.h"
#include "actors/stall_report.h"
#include "actors/step_watch.h"
#include "actors/turn_threads.h"
#include "troupe/session.h"

namespace troupe {

class ExecutorSet;
class PartialStep;
class Signature;

// The biggest feeds with which a step was cheap, as far as its cost may depend on how big they are:
// their shapes, and the characters in all strings of each. Thread rule: none.
class CheapFeeds {
 public:
  // A step with `feeds` took so long; cheap is what took `limit` at most. False when steps with
  // such feeds were held to be cheap and are not any more.
  bool Saw(const std::vector<Tensor>& feeds, int64_t nanos, int64_t limit);
  // Whether none of `feeds` is bigger in any dimension, or has another rank.
  bool Cover(const FeedValues& feeds) const;
  void Forget() { known_ = false; }

 private:
  static int64_t Characters(const Tensor& feed);
  bool known_ = false;
  std::vector<TensorShape> shapes_;
  std::vector<int64_t> characters_;
};

// The executors of one step, one per part, and the step's state. Leased to one caller at a time.
class alignas(64) ExecutorSet : public StepGroup, public Cancellable {
 public:
  ExecutorSet(Signature* signature, caf::actor_system& system);
  ~ExecutorSet() override;

  // Runs a step on the calling thread's lane and waits for it.
  absl::Status RunBlocking(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds,
                           std::vector<Tensor>* outputs, proto::RunMetadata* metadata);
  // Whether a blocking Run may give its thread to the step with these feeds; `limited`: it has a
  // deadline or token.
  bool MayUseLane(bool limited, const FeedValues& feeds) const;
  // Starts a step that nobody waits for. The calling thread is lent to it when it is likely to take
  // `lend_us` at most (lend.cc); the compute threads have it otherwise. `keep` is released before
  // `done` is called.
  void RunAsync(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds, RunCallback done,
                proto::RunMetadata* metadata, std::shared_ptr<Signature> keep, int64_t lend_us);
  // Starts a step whose feeds come later, on the compute threads. `partial` hears of results and of
  // the end.
  void RunPartial(const RunOptions& options, const Deadline& deadline, std::shared_ptr<PartialStep> partial);
  void Feed(uint32_t index, const Tensor& value);
  // False when an executor is dead: the set is not used again.
  bool usable() const;
  // Ends step `step_id` from any thread, also when its parts have not been started yet; nothing
  // happens when it is over. Stop leaves it to the caller to see to the answer. REQUIRES: the set
  // lives.
  void Abort(int64_t step_id, const absl::Status& status);
  void Stop(int64_t step_id, const absl::Status& status);
  // For the watch, under its lock.
  bool unanswered(int64_t step_id) const { return owed_.load() == step_id; }
  bool AnswerEarly(int64_t step_id, const std::vector<std::string>& lines, EarlyAnswer* answer);
  std::string Describe() const;
  const std::vector<std::shared_ptr<Executor>>& executors() const { return executors_; }
  bool running() const { return parts_left_.load() > 0; }
  // What the parts have run since they began to live. From any thread.
  int64_t nodes_run() const;
  int64_t step_id() const { return step_id_.load(std::memory_order_acquire); }

  void OnCancel() override;

  // StepGroup.
  void PartDone(Executor* executor, const absl::Status& status) override;
  Executor* ReceiverOf(const std::string& key) override;
  caf::execution_unit* Home() override;
  Executor* SenderOf(const std::string& key) override;
  void ResultReady(uint32_t index) override;

 private:
  // A step begins: from here on it has a number, and may be stopped. `feeds` must stay where they
  // are until Finish. `answers`: it answers by callback, so it may be answered early.
  void Begin(const FeedValues& feeds, bool answers);
  void Launch(caf::execution_unit* home, bool stats);
  // Puts a step that no thread waits for under the eyes of its token and of the watch.
  void Guard(const CancellationToken* token, const Deadline& deadline);
  // Works along with the step's jobs until the lane has something to run, `until` has come, or it
  // is time to sleep.
  void HelpJobs(std::chrono::steady_clock::time_point until);
  // What the step waits for. Of the lane's thread, which drains meanwhile: an executor answers in
  // its turn, and may have it elsewhere.
  std::vector<std::string> AskInLane();
  // Lending (lend.cc).
  bool MayLend(int64_t lend_us, const FeedValues& feeds) const;
  void Lend(bool stats, int64_t lend_us);
  void RunLent(std::chrono::steady_clock::time_point* until, int64_t lend_us);
  void LetGo();
  void OnOver();
  void DropResources();
  // The step's status and its outputs.
  absl::Status Finish(std::vector<Tensor>* outputs);
  void FillMetadata(const RunOptions& options, proto::RunMetadata* metadata) const;

  // Remembers what the step's turns and jobs took, and with which feeds. REQUIRES: the step is
  // over, and its arguments are still there.
  void Measure();
  // The step had the caller's thread for longer than it should: it is elsewhere the next time.
  void Overran();

  Signature* const signature_;
  caf::actor_system& system_;
  caf::execution_unit* const elsewhere_;  // where executors run that no lane has; null: under the scheduler
  Lane lane_;
  bool user_kernels_ = false;
  std::vector<std::shared_ptr<Executor>> executors_;
  std::shared_ptr<StepContext> context_;
  std::atomic<bool> in_lane_{false};
  bool lent_ = false;  // nobody waits for the step, although it is in a lane
  std::atomic<int64_t> step_id_{0};
  std::atomic<int> stops_{0};      // threads in Stop
  // What is known of the cost of steps, for whoever has leased the set.
  int64_t measured_nanos_ = -1;  // of the step that was measured last; negative: none was
  CheapFeeds for_lane_, for_lending_;
  bool measure_next_ = false;
  std::atomic<int64_t> owed_{0};  // the step whose callback has not been called, nor taken by who will
  int64_t next_id_ = 0, last_id_ = 0;  // numbers for coming steps
  std::vector<Tensor> arguments_, results_;
  std::vector<bits::Loan> loans_;  // by argument
  std::vector<std::vector<NodeTiming>> timings_;
  std::atomic<int> parts_left_{0};
  // The first error, from whichever thread. Most steps have none, and look at the flag alone.
  bool SetError(const absl::Status& status);
  absl::Status TakeError();
  std::mutex mu_;        // guards status_, and context_ against Stop
  absl::Status status_;
  std::atomic<bool> failed_{false};
  // Of an asynchronous step. Whoever takes `owed_` to zero has done_ and metadata_.
  std::vector<Tensor> held_feeds_;
  RunOptions run_options_;
  RunCallback done_;
  proto::RunMetadata* metadata_ = nullptr;
  std::optional<Cancellation> cancellation_;
  bool watched_ = false, stats_ = false;
  std::shared_ptr<Signature> keep_;
  std::shared_ptr<PartialStep> partial_;
};

class Signature : public std::enable_shared_from_this<Signature> {
 public:
  Names feeds, fetches, targets;
  std::vector<DType> feed_types;
  std::vector<PartialTensorShape> feed_shapes;
  std::vector<std::vector<int>> fetch_needs;  // by fetch: the feeds that it depends on
  std::vector<std::shared_ptr<const CompiledPart>> parts;
  absl::flat_hash_map<std::string, int> receivers;  // edge key -> part
  absl::flat_hash_map<std::string, int> senders;    // of those that need a grant
  SessionOptions options;
  caf::actor_system* system = nullptr;
  std::shared_ptr<Runtime> runtime;  // keeps devices alive
  std::shared_ptr<std::atomic<bool>> closed;
  std::shared_ptr<StepWatch> watch;  // null: asynchronous steps have no deadlines
  TurnThreads* turns = nullptr;      // the runtime's; null: asynchronous steps run under the scheduler

  ~Signature();
  // A free set, or a new one. Null when the session is closed.
  std::unique_ptr<ExecutorSet> Lease();
  void Release(std::unique_ptr<ExecutorSet> set);
  absl::Status CheckFeed(size_t i, const Tensor& value) const;
  // Its fetches and targets, for messages.
  std::string Describe() const;
  absl::Status CheckFeeds(const FeedValues& values) const;
  // When a call that begins now must be answered.
  Deadline DeadlineOf(const RunOptions& options) const;
  absl::Status RunBlocking(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds,
                           std::vector<Tensor>* outputs, proto::RunMetadata* metadata);
  // `lend_us`: for how long the calling thread may work on the step; negative = as the session's
  // options say.
  void RunAsync(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds, RunCallback done,
                proto::RunMetadata* metadata, int64_t lend_us = -1);
  // Aborts the steps that run now.
  void AbortAll(const absl::Status& status);
  // Asks every step that runs what it waits for; `answered` as in StepQuestion::Ask.
  struct Asked {
    int64_t step_id;
    std::string what;
    std::shared_ptr<StepQuestion> question;
  };
  void Ask(const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered, std::vector<Asked>* asked);

 private:
  static constexpr size_t kSlots = 32;
  struct alignas(64) Slot {
    std::atomic<ExecutorSet*> set{nullptr};
  };
  std::array<Slot, kSlots> free_;
  std::mutex mu_;
  absl::flat_hash_set<ExecutorSet*> all_;  // for AbortAll and reports
  friend class ExecutorSet;
};

// True on a thread that runs an actor's handler, as far as the runtime can know, and on the
// runtime's own threads.
bool InsideActor();
// Why a fetch has no value although its step went well.
absl::Status NotTaken(const std::string& fetch);
// Calls a callback of the program. What it throws is logged and dropped: there is nobody to tell.
void CallDone(const RunCallback& done, absl::Status status, std::vector<Tensor> outputs) noexcept;
// Gives a stall report to `on_stall`, or logs it when there is none.
void ReportStall(const std::function<void(const std::string&)>& on_stall, const std::string& text);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SIGNATURE_H_
