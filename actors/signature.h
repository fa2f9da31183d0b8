// A compiled signature: one choice of feeds, fetches and targets, with its compiled parts and the
// free executors that can run it.
//
// A step is answered once: when its last part is done, or earlier if it was told to end (deadline,
// token, Close) and did not within 50 ms (step_watch.h). A step that was answered early goes on in
// the background. Until its kernels have returned it keeps its set, its signature, the runtime, its
// feeds and its results.
//
//   state      event                                     action                                            next
//   free       a blocking Run of the library's kernels,
//              without deadline and token             1 run_step to each executor, through the lane      in its lane
//   free       any other call                         2 run_step to each executor (lend.cc)             running
//   in its lane, running  Stop of this step           3 keep the error, tell kernels and executors      as before
//   in its lane, running  Stop of an older step       4 nothing                                         as before
//   in its lane  the last part is done                5 wake the lane, which answers                    free
//   running    the last part is done                  6 answer                                          free
//   running    it was stopped 50 ms ago               7 answer, with what has not returned              answered
//   answered   the last part is done                  8 nothing is told any more                        free
//
// When no memory is left to begin a step, none of its parts begins, and the call is answered with
// RESOURCE_EXHAUSTED (tests/cast/no_memory.cc). Ending a step needs no memory (no_memory.h).
//
// A blocking Run waits in its step's lane only where each kernel returns: without deadline and
// token, for the library's own kernels. Any other blocking Run starts an asynchronous step and
// waits for the answer. That step begins on the calling thread if it is known to be short: with a
// deadline or token, one of the library's kernels that took at most 1 ms with feeds at least as
// large in every dimension; with users' kernels, one that took at most 10 ms when it was last
// measured. As soon as nothing of it can run on the calling thread, or the time is over, it goes on
// elsewhere. The cost of a step may depend on more than the sizes of its feeds (on their values, or
// on variables); a step that kept its caller's thread for longer begins elsewhere the next time,
// and is measured then. While a kernel occupies the caller's thread, neither Close nor a deadline
// takes effect.
//
// Thread rule: Lease, Release and the Run functions are thread safe. Threads that run steps share
// no memory that each step writes: a set of executors belongs to one step at a time, and free sets
// lie in slots that threads take from different ends.
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
#include <unordered_set>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
class SessionMaster;
class Signature;

// What a step may take that begins on its caller's thread: one that has a deadline or token, and
// one with kernels of users.
constexpr int64_t kLimitedNanos = 1'000'000, kUsersNanos = 10'000'000;

// The largest feeds with which a step was cheap: their shapes, and for each the number of
// characters in all its strings. Thread rule: one thread at a time.
class CheapFeeds {
 public:
  // Records that a step with `feeds` took `nanos`; it was cheap if that is at most `limit`. False
  // when steps with such feeds counted as cheap before and do not any more.
  bool Saw(const std::vector<Tensor>& feeds, int64_t nanos, int64_t limit);
  // True when the recorded feeds are at least as large as `feeds` in every dimension and have the
  // same ranks.
  bool Cover(const FeedValues& feeds) const;
  void Forget() { known_ = false; }

 private:
  static int64_t Characters(const Tensor& feed);
  bool known_ = false;
  std::vector<TensorShape> shapes_;
  std::vector<int64_t> characters_;
};

// The executors of one step, one for each part, and the step's state. Leased to one caller at a
// time.
class alignas(64) ExecutorSet : public StepGroup, public Cancellable {
 public:
  ExecutorSet(Signature* signature, caf::actor_system& system);
  ~ExecutorSet() override;

  // Runs a step on the calling thread's lane and waits for it. Throws std::bad_alloc if there is no
  // memory to begin.
  absl::Status RunBlocking(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds,
                           std::vector<Tensor>* outputs, proto::RunMetadata* metadata);
  bool user_kernels() const { return user_kernels_; }
  // Whether a step with these feeds, which is not to keep its caller's thread, is so short that it
  // may begin there. `limited`: the call has a deadline or a token.
  bool CheapFor(bool limited, const FeedValues& feeds) const;
  // Keeps the feeds of a step that answers by a callback, and takes what it needs memory for before
  // it begins. Throws std::bad_alloc.
  void Reserve(const RunOptions& options, const FeedValues& feeds);
  // Starts a step for which no thread waits. It begins on the calling thread if it is likely to
  // take at most `lend_us` microseconds (lend.cc), otherwise on the compute threads. `keep` is
  // released before `done` is called. REQUIRES: Reserve.
  void RunAsync(const Deadline& deadline, const CancellationToken* token, RunCallback done,
                proto::RunMetadata* metadata, std::shared_ptr<Signature> keep, int64_t lend_us) noexcept;
  // The same for a caller who waits: it begins on the calling thread, which works on it as long as
  // something can run (lend.cc).
  void RunHere(const Deadline& deadline, const CancellationToken* token, RunCallback done, proto::RunMetadata* metadata,
               std::shared_ptr<Signature> keep) noexcept;
  // Starts a step whose feeds come later, on the compute threads. `partial` is told of results and
  // of the end. REQUIRES: Reserve, without feeds.
  void RunPartial(const Deadline& deadline, const CancellationToken* token, std::shared_ptr<PartialStep> partial);
  void Feed(uint32_t index, const Tensor& value);
  // False when an executor is dead; the set must then not be used again.
  bool usable() const;
  // Both end step `step_id` from any thread, also before its parts have been started; nothing
  // happens when the step is over. After Abort the watch gives the answer if the step does not end
  // in time; after Stop the caller has to see to the answer. REQUIRES: the set lives.
  void Abort(int64_t step_id, const absl::Status& status);
  void Stop(int64_t step_id, const absl::Status& status);
  // For the watch, under its lock.
  bool unanswered(int64_t step_id) const { return owed_.load() == step_id; }
  bool AnswerEarly(int64_t step_id, const std::vector<std::string>& lines, EarlyAnswer* answer);
  std::string Describe() const;
  const std::vector<std::shared_ptr<Executor>>& executors() const { return executors_; }
  bool running() const { return parts_left_.load() > 0; }
  // The number of nodes that the parts have run since the set was made. From any thread.
  int64_t nodes_run() const;
  int64_t step_id() const { return step_id_.load(std::memory_order_acquire); }

  void OnCancel() override;

  // StepGroup.
  void PartDone(Executor* executor, const absl::Status& status) override;
  void PartDone(Executor* executor, part_done message) override;
  void PartFails(Executor* executor, const absl::Status& status) override;
  const EdgeTable& edges() const override;
  absl::Status Deliver(PartAddress to, part_message message) override;
  caf::execution_unit* Home() override;
  void ResultReady(uint32_t index) override;
  void ResultCame(result message) override;

 private:
  // Begins a step: it has a number from here on, and may be stopped. `feeds` must stay where they
  // are until Finish. `answers`: the step answers by a callback, so it may be answered early.
  void Begin(const FeedValues& feeds, bool answers);
  // Starts the parts, all or none: none when there is no memory for it, which is the step's error.
  void Launch(caf::execution_unit* home, bool stats) noexcept;
  // Makes a part ready to begin, which is the last thing that may fail.
  absl::Status Prepare(size_t part, const StepInput& input);
  void AbortPart(size_t part, int64_t step_id, const absl::Status& status) noexcept;
  // Of values that have come through bytes.
  void Bind(Tensor* value) const;
  void Renew();
  void EndExecutors();
  void BeginAsync(const Deadline& deadline, const CancellationToken* token, RunCallback done,
                  proto::RunMetadata* metadata, std::shared_ptr<Signature> keep) noexcept;
  // Registers the step with its token and with the watch, and the reverse.
  void Guard(const CancellationToken* token, const Deadline& deadline) noexcept;
  void EndGuard();
  // Works along with the step's jobs until the lane has something to run, or it is time to sleep.
  void HelpJobs();
  // Lending (lend.cc).
  bool MayLend(int64_t lend_us, const FeedValues& feeds) const;
  void Lend(int64_t lend_us) noexcept;
  void RunLent(std::chrono::steady_clock::time_point* until, int64_t lend_us);
  template <class Over>
  void RunInLane(int64_t lend_us, Over over);
  void LetGo();
  void OnOver();
  void DropResources();
  // The step's status and its outputs.
  absl::Status Finish(std::vector<Tensor>* outputs);
  void FillMetadata(const RunOptions& options, proto::RunMetadata* metadata) const noexcept;

  // Records how long the step's turns and jobs took, and with which feeds. REQUIRES: the step is
  // over, and its arguments are still there.
  void Measure();
  // Records that the step kept the caller's thread too long, so that the next one runs elsewhere.
  void Overran();

  Signature* const signature_;
  caf::actor_system& system_;
  caf::execution_unit* const elsewhere_;  // where executors run that no lane has; null: under the scheduler
  Lane lane_;
  bool user_kernels_ = false;
  std::vector<std::shared_ptr<Executor>> executors_;
  std::shared_ptr<StepContext> context_;
  std::atomic<bool> in_lane_{false};
  bool lent_ = false;  // the step is in a lane, but no thread waits for it
  std::atomic<int64_t> step_id_{0};
  std::atomic<int> stops_{0};  // threads in Stop
  // The known cost of steps. Used by the thread that has leased the set.
  int64_t measured_nanos_ = -1;  // of the step that was measured last; negative: none was
  CheapFeeds for_lane_, for_lending_;
  bool measure_next_ = false;
  std::atomic<int64_t> owed_{0};       // the step whose callback has not been called, nor taken by who will
  int64_t next_id_ = 0, last_id_ = 0;  // numbers for coming steps
  std::vector<Tensor> arguments_, results_;
  std::vector<bits::Loan> loans_;  // by argument
  std::vector<std::vector<NodeTiming>> timings_;
  std::atomic<int> parts_left_{0};
  // The first error, from any thread. A step without an error only reads the flag.
  bool SetError(const absl::Status& status);
  absl::Status TakeError();
  std::mutex mu_;  // guards status_, and context_ against Stop
  absl::Status status_;
  std::atomic<bool> failed_{false};
  // Of an asynchronous step. The thread that sets `owed_` to zero owns done_ and metadata_.
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
  EdgeTable edges;  // between the parts
  SessionOptions options;
  caf::actor_system* system = nullptr;
  std::shared_ptr<Runtime> runtime;  // keeps devices alive
  std::shared_ptr<std::atomic<bool>> closed;
  std::shared_ptr<StepWatch> watch;     // null: asynchronous steps have no deadlines
  TurnThreads* turns = nullptr;         // the runtime's; null: asynchronous steps run under the scheduler
  std::weak_ptr<SessionMaster> master;  // who compiled it, and may compile it anew

  // A stale signature has edges that name an incarnation of a device that is over. Its steps are
  // refused tensors; who holds it has it compiled anew, once for all.
  bool stale() const { return stale_.load(std::memory_order_relaxed); }
  void SetStale() { stale_.store(true); }
  std::shared_ptr<Signature> successor() {
    std::lock_guard<std::mutex> lock(mu_);
    return successor_;
  }
  void SetSuccessor(std::shared_ptr<Signature> next) {
    std::lock_guard<std::mutex> lock(mu_);
    successor_.swap(next);
  }

  ~Signature();
  // A free set, or a new one; never null. Callers check `closed` themselves.
  std::unique_ptr<ExecutorSet> Lease();
  void Release(std::unique_ptr<ExecutorSet> set);
  absl::Status CheckFeed(size_t i, const Tensor& value) const;
  // Its fetches and targets, for messages.
  std::string Describe() const;
  absl::Status CheckFeeds(const FeedValues& values) const;
  // The deadline of a call that begins now.
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
  // The executors of the steps that run now.
  std::vector<caf::actor> RunningExecutors();

 private:
  static constexpr size_t kSlots = 32;
  struct alignas(64) Slot {
    std::atomic<ExecutorSet*> set{nullptr};
  };
  std::array<Slot, kSlots> free_;
  std::mutex mu_;
  // For AbortAll and reports. The standard's set: absl's is broken for good by an insertion that
  // finds no memory.
  std::unordered_set<ExecutorSet*> all_;
  std::atomic<bool> stale_{false};
  std::shared_ptr<Signature> successor_;
  friend class ExecutorSet;
};

// True on a thread that runs an actor's handler, as far as the runtime can tell, and on the
// runtime's own threads.
bool InsideActor();
// The error of a fetch that has no value although its step succeeded.
absl::Status NotTaken(const std::string& fetch);
// Calls a callback of the program. An exception that it throws is logged and dropped.
void CallDone(const RunCallback& done, absl::Status status, std::vector<Tensor> outputs) noexcept;
// Gives a stall report to `on_stall`, or logs it when there is none.
void ReportStall(const std::function<void(const std::string&)>& on_stall, const std::string& text);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SIGNATURE_H_
