// A compiled signature: one choice of feeds, fetches and targets, with its compiled parts and the
// pool of free sets of executors that can run it (step/executor_set.h).
//
// It chooses how a call runs. A blocking Run waits in its step's lane (step/blocking_step.h) only
// where each kernel returns: without deadline and token, for the library's own kernels, with all
// parts in this process; or where no compute thread can be had. Any other blocking Run starts an
// asynchronous step (step/async_step.h) and waits for the answer. That step begins on the calling
// thread if it is known to be short: with a deadline or token, one of the library's kernels alone
// that took at most 1 ms with feeds at least as large in every dimension; without either, one that
// took at most 10 ms when it was last measured (step/step_cost.h). As soon as nothing of it can run
// on the calling thread, or the time is over, it goes on elsewhere. While a kernel occupies the
// caller's thread, neither Close nor a deadline takes effect.
//
// Thread rule: all methods are thread safe once the signature is made. Threads that run steps share
// no memory that each step writes: a set of executors belongs to one step at a time, and free sets
// lie in slots that threads take from different ends.
#ifndef TROUPE_ACTORS_SIGNATURE_SIGNATURE_H_
#define TROUPE_ACTORS_SIGNATURE_SIGNATURE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "actors/watch/call_wait.h"
#include "actors/executor/compiled_part.h"
#include "actors/signature/feed_values.h"
#include "actors/snapshot/queue_use.h"
#include "actors/watch/stall_report.h"
#include "actors/step/answers.h"
#include "actors/step/executor_set.h"
#include "actors/snapshot/step_gate.h"
#include "actors/watch/step_watch.h"
#include "actors/threads/turn_threads.h"
#include "actors/wire/part_messages.h"
#include "troupe/session.h"

namespace troupe {

class SessionMaster;
struct RemotePlan;

class Signature : public std::enable_shared_from_this<Signature> {
 public:
  uint64_t number = 0;  // in its session
  Names feeds, fetches, targets;
  std::vector<DType> feed_types;
  std::vector<PartialTensorShape> feed_shapes;
  std::vector<std::vector<int>> fetch_needs;  // by fetch: the feeds that it depends on
  std::vector<std::shared_ptr<const CompiledPart>> parts;
  std::vector<uint32_t> tasks;  // by part: the number of its task in the session; empty: all are on one
  EdgeTable edges;              // between the parts
  // The parts of this process come first, those of others after them; null: there are none.
  std::shared_ptr<const RemotePlan> remote;
  uint32_t first_part = 0;  // of `parts`, where the master is another process
  QueueUse queues;
  SessionOptions options;
  caf::actor_system* system = nullptr;
  std::shared_ptr<Runtime> runtime;  // keeps devices alive
  std::shared_ptr<std::atomic<bool>> closed;
  std::shared_ptr<StepWatch> watch;     // null: asynchronous steps have no deadlines
  TurnThreads* turns = nullptr;         // the runtime's; null: asynchronous steps run under the scheduler
  std::shared_ptr<StepGate> gate;       // null: no snapshot waits for its steps
  std::weak_ptr<SessionMaster> master;  // who compiled it, and may compile it anew

  // A stale signature has edges that name an incarnation of a device that is over. Its steps are
  // refused tensors; who holds it has it compiled anew, once for all.
  bool stale() const { return stale_.load(std::memory_order_relaxed); }
  void SetStale() { stale_.store(true); }
  const std::atomic<bool>* stale_flag() const { return &stale_; }
  // A turn of a step took so long in the network's thread that the next steps have none there.
  // After one so long that other processes' patience is at stake these are many, and 16 times as
  // many after each further one: a machine that stood still once is forgiven, a slow kernel not.
  void LeaveLoop(int64_t nanos) const {
    constexpr int64_t kSome = 64, kMost = int64_t{1} << 40, kTooLong = 50'000'000;
    int64_t steps = kSome;
    if (nanos > kTooLong) {
      steps = many_.load(std::memory_order_relaxed);
      many_.store(std::min(16 * steps, kMost), std::memory_order_relaxed);
    }
    without_loop_.store(steps, std::memory_order_relaxed);
  }
  // Whether the step that begins may have some. Each that may not counts.
  bool MayUseLoop() const {
    return without_loop_.load(std::memory_order_relaxed) <= 0 ||
           without_loop_.fetch_sub(1, std::memory_order_relaxed) <= 0;
  }
  std::shared_ptr<Signature> successor() {
    std::lock_guard<std::mutex> lock(mu_);
    return successor_;
  }
  // A signature that follows itself changes nothing: who looks for the last one would not end.
  void SetSuccessor(std::shared_ptr<Signature> next) {
    if (next.get() == this) return;
    std::lock_guard<std::mutex> lock(mu_);
    successor_.swap(next);
  }

  ~Signature();
  // A free set, or a new one; never null. Callers check `closed` themselves.
  std::unique_ptr<ExecutorSet> Lease();
  void Release(std::unique_ptr<ExecutorSet> set);
  // INVALID_ARGUMENT when the value has another type than feed i, or a shape that does not fit.
  absl::Status CheckFeed(size_t i, const Tensor& value) const;
  // Whether another process runs parts of it as this task.
  bool HasPartsAt(std::string_view task) const;
  // Its fetches and targets, for messages.
  std::string Describe() const;
  // CheckFeed of all; INVALID_ARGUMENT also when there are more or fewer values.
  absl::Status CheckFeeds(const FeedValues& values) const;
  // The deadline of a call that begins now.
  Deadline DeadlineOf(const RunOptions& options) const;
  // As Session::Run. FAILED_PRECONDITION in an actor's handler, INVALID_ARGUMENT as CheckFeeds,
  // CANCELLED when the session is closed, RESOURCE_EXHAUSTED without memory to begin: no part has
  // begun then.
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
  // The level of its steps at the gate (snapshot/step_cut.h); negative: they pass.
  int Level();
  void SetLevel(int level) { level_.store(level, std::memory_order_relaxed); }
  // Calls `each` for every leased set; none is released meanwhile. REQUIRES: the gate is shut.
  void Leased(const std::function<void(ExecutorSet* set, bool running)>& each);
  // The executors of the steps that run now.
  std::vector<caf::actor> RunningExecutors();

 private:
  // Queues an asynchronous step at the gate. False when that is open.
  bool RunLater(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds, const RunCallback& done,
                proto::RunMetadata* metadata);
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
  mutable std::atomic<int64_t> without_loop_{0};      // so many steps
  mutable std::atomic<int64_t> many_{1024};           // after the next turn that is much too long
  std::atomic<int> level_{StepGate::kAllLevels - 1};  // of a signature that fills queues
  std::shared_ptr<Signature> successor_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SIGNATURE_SIGNATURE_H_
