// A compiled signature: one choice of feeds, fetches and targets, with its compiled parts and the executors that are free to run it.
//
// Thread rule: Lease, Release and the Run functions are thread safe. Nothing hot is shared: a set of executors belongs to one step at a time, and free sets wait
// in slots that threads take from different ends.
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
#include "troupe/actors/call_wait.h"
#include "troupe/actors/executor/executor_actor.h"
#include "troupe/actors/executor/tensor_bits.h"
#include "troupe/actors/feed_values.h"
#include "troupe/actors/lane.h"
#include "troupe/actors/session.h"
#include "troupe/actors/stall_report.h"
#include "troupe/actors/step_watch.h"

namespace troupe {

class ExecutorSet;
class PartialStep;
class Signature;

// The executors of one step, one per part, and the step's state. Leased to one caller at a time.
class alignas(64) ExecutorSet : public StepGroup, public Cancellable {
 public:
  ExecutorSet(Signature* signature, caf::actor_system& system);
  ~ExecutorSet() override;

  // Runs a step on the calling thread's lane and waits for it.
  absl::Status RunBlocking(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds, std::vector<Tensor>* outputs,
                           proto::RunMetadata* metadata);
  // Starts a step that nobody waits for. The calling thread is lent to it when it is likely to take `lend_us` at most (lend.cc); the scheduler has
  // it otherwise. `keep` is released after `done` was called.
  void RunAsync(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds, RunCallback done, proto::RunMetadata* metadata,
                std::shared_ptr<Signature> keep, int64_t lend_us);
  // Starts a step whose feeds come later, under the scheduler. `partial` hears of results and of the end.
  void RunPartial(const RunOptions& options, const Deadline& deadline, std::shared_ptr<PartialStep> partial);
  void Feed(uint32_t index, const Tensor& value);
  // False when an executor is dead: the set is not used again.
  bool usable() const;
  // Ends the step from any thread, also when its parts have not been started yet.
  void Abort(const absl::Status& status);
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
  // A step begins: from here on it has a number, and may be cancelled. `feeds` must stay where they are until Finish.
  void Begin(const FeedValues& feeds);
  void Launch(caf::execution_unit* home, bool stats);
  // Puts a step that no thread waits for under the eyes of its token and of the watch.
  void Guard(const CancellationToken* token, const Deadline& deadline);
  // Works along with the step's jobs until the lane has something to run, `until` has come, or it is time to sleep.
  void HelpJobs(std::chrono::steady_clock::time_point until);
  // What the step waits for. Of the lane's thread, while it does not drain.
  std::vector<std::string> Waiting() const;
  // Lending (lend.cc).
  bool MayLend(int64_t lend_us) const;
  void Lend(bool stats, int64_t lend_us);
  void RunLent(std::chrono::steady_clock::time_point* until, int64_t lend_us);
  void LetGo();
  void OnOver();
  void DropResources();
  // The step's status and its outputs.
  absl::Status Finish(std::vector<Tensor>* outputs);
  void FillMetadata(const RunOptions& options, proto::RunMetadata* metadata) const;

  Signature* const signature_;
  caf::actor_system& system_;
  Lane lane_;
  std::vector<std::shared_ptr<Executor>> executors_;
  std::shared_ptr<StepContext> context_;
  std::atomic<bool> in_lane_{false};
  bool lent_ = false;  // nobody waits for the step, although it is in a lane
  std::atomic<int64_t> step_id_{0};
  int64_t next_id_ = 0, last_id_ = 0;  // numbers for coming steps
  std::vector<Tensor> arguments_, results_;
  std::vector<bits::Loan> loans_;  // by argument
  std::vector<std::vector<NodeTiming>> timings_;
  std::atomic<int> parts_left_{0};
  // The first error, from whichever thread. Most steps have none, and look at the flag alone.
  bool SetError(const absl::Status& status);
  absl::Status TakeError();
  std::mutex mu_;
  absl::Status status_;  // guarded by mu_
  std::atomic<bool> failed_{false};
  // Of an asynchronous step.
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
  absl::Status RunBlocking(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds, std::vector<Tensor>* outputs,
                           proto::RunMetadata* metadata);
  // `lend_us`: for how long the calling thread may work on the step; negative = as the session's options say.
  void RunAsync(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds, RunCallback done, proto::RunMetadata* metadata,
                int64_t lend_us = -1);
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
  std::vector<ExecutorSet*> all_;  // for AbortAll and reports
  friend class ExecutorSet;
};

// True on a thread that runs an actor's handler, as far as the runtime can know.
bool InsideActor();
// Gives a stall report to `on_stall`, or logs it when there is none.
void ReportStall(const std::function<void(const std::string&)>& on_stall, const std::string& text);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SIGNATURE_H_
