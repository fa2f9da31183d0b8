#include "actors/threads/inside_actor.h"
#include "actors/signature/signature.h"

#include <algorithm>

#include "actors/signature/remote_plan.h"
#include "actors/step/blocking_step.h"
#include "actors/step/cancel_later.h"
#include "actors/threads/no_memory.h"

namespace troupe {
namespace {

// Where a thread looks for a free set first, and where it puts it back: so it finds the set that it
// had before, whose lines are in its core's cache.
size_t FirstSlot() {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

// What a blocking Run waits for.
struct Answer {
  Answer(absl::Status s, std::vector<Tensor> o = {}) : status(std::move(s)), outputs(std::move(o)) {}  // NOLINT
  absl::Status status;
  std::vector<Tensor> outputs;
};

}  // namespace

Signature::~Signature() {
  for (Slot& s : free_) delete s.set.load();
}

std::unique_ptr<ExecutorSet> Signature::Lease() {
  const size_t mine = FirstSlot();
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& s = free_[(mine + i) % kSlots];
    if (s.set.load(std::memory_order_relaxed) == nullptr) continue;
    // Before the gate is looked at, in an order that all threads see (snapshot/step_gate.h).
    if (ExecutorSet* set = s.set.exchange(nullptr, std::memory_order_seq_cst)) {
      if (set->usable()) return std::unique_ptr<ExecutorSet>(set);
      Release(std::unique_ptr<ExecutorSet>(set));
    }
  }
  auto set = std::make_unique<ExecutorSet>(this, *system);
  std::lock_guard<std::mutex> lock(mu_);
  all_.insert(set.get());
  return set;
}

void Signature::Release(std::unique_ptr<ExecutorSet> set) {
  const size_t mine = FirstSlot();
  if (set->usable() && !closed->load(std::memory_order_relaxed)) {
    for (size_t i = 0; i < kSlots; ++i) {
      Slot& s = free_[(mine + i) % kSlots];
      ExecutorSet* expected = nullptr;
      if (s.set.compare_exchange_strong(expected, set.get(), std::memory_order_seq_cst, std::memory_order_relaxed)) {
        (void)set.release();  // the slot has it
        if (gate != nullptr && gate->shut()) [[unlikely]]
          gate->StepOver();
        return;
      }
    }
  }
  std::lock_guard<std::mutex> lock(mu_);
  all_.erase(set.get());
}

int Signature::Level() {
  if (queues.Ordered()) return level_.load(std::memory_order_relaxed);
  return queues.updates ? 0 : -1;
}

void Signature::Leased(const std::function<void(ExecutorSet*, bool)>& each) {
  std::lock_guard<std::mutex> lock(mu_);
  // A set that moves from slot to slot meanwhile is seen twice, and must count once.
  std::unordered_set<ExecutorSet*> free;
  for (Slot& s : free_) {
    if (ExecutorSet* set = s.set.load(std::memory_order_seq_cst)) free.insert(set);
  }
  for (ExecutorSet* set : all_) {
    if (!free.contains(set)) each(set, set->running());
  }
}

bool Signature::HasPartsAt(std::string_view task) const {
  if (remote == nullptr) return false;
  return std::any_of(remote->tasks.begin(), remote->tasks.end(),
                     [&](const auto& t) { return remote->NameOf(t) == task; });
}

std::string Signature::Describe() const {
  constexpr size_t kNames = 4;
  Names names(fetches.begin(), fetches.begin() + std::min(kNames, fetches.size()));
  for (size_t i = 0; i < targets.size() && names.size() < kNames; ++i) names.push_back(targets[i]);
  const size_t more = fetches.size() + targets.size() - names.size();
  return StrCat(StrJoin(names, ", "), more == 0 ? "" : StrCat(" and ", more, " more"));
}

Deadline Signature::DeadlineOf(const RunOptions& run) const {
  const int64_t ms = run.timeout_ms != 0 ? run.timeout_ms : options.operation_timeout_ms;
  return ms <= 0 ? Deadline() : Deadline::In(ms, watch != nullptr ? watch->Now() : std::chrono::steady_clock::now());
}

absl::Status Signature::CheckFeeds(const FeedValues& values) const {
  if (values.size() != feeds.size()) {
    return InvalidArgument("the step takes ", feeds.size(), " feeds, not ", values.size());
  }
  for (size_t i = 0; i < values.size(); ++i) TROUPE_RETURN_IF_ERROR(CheckFeed(i, values[i]));
  return absl::OkStatus();
}

absl::Status Signature::CheckFeed(size_t i, const Tensor& value) const {
  if (value.dtype() != BaseType(feed_types[i])) {
    return InvalidArgument("'", feeds[i], "' is ", Name(BaseType(feed_types[i])), ", but is fed ",
                           value.TypeAndShape());
  }
  const PartialTensorShape& want = feed_shapes[i];
  if (!want.known_rank()) return absl::OkStatus();
  bool fits = want.rank() == value.rank();
  for (int d = 0; fits && d < want.rank(); ++d) fits = want.dim(d) < 0 || want.dim(d) == value.dim(d);
  if (fits) return absl::OkStatus();
  return InvalidArgument("'", feeds[i], "' has shape ", want.DebugString(), ", but is fed ", value.TypeAndShape());
}

absl::Status Signature::RunBlocking(const RunOptions& run_options, const Deadline& deadline, const FeedValues& values,
                                    std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  if (InsideActor()) {
    return FailedPrecondition(
        "a blocking Run may not be called inside an actor's handler, whose thread others wait for: "
        "use RunAsync, or send the session actor a run message");
  }
  TROUPE_RETURN_IF_ERROR(CheckFeeds(values));
  if (closed->load(std::memory_order_relaxed)) return Cancelled("the session is closed");
  const bool limited = deadline.ms > 0 || run_options.cancellation != nullptr;
  std::unique_ptr<ExecutorSet> set;
  try {
    set = Lease();
    while (gate != nullptr && gate->shut() && gate->Holds(Level())) [[unlikely]] {
        Release(std::move(set));
        TROUPE_RETURN_IF_ERROR(gate->Wait(deadline, run_options.cancellation, Level()));
        set = Lease();
      }
    if ((!limited && !set->user_kernels()) || (turns != nullptr && !turns->Start().ok())) {
      absl::Status s = BlockingStep(set.get()).Run(run_options, deadline, values, outputs, metadata);
      Release(std::move(set));
      return s;
    }
    // The answer comes in time, whatever the step's kernels do.
    auto wait = std::make_shared<CallWait<Answer>>();
    RunCallback done = [wait](absl::Status s, std::vector<Tensor> o) { wait->Set(Answer(std::move(s), std::move(o))); };
    const bool here = set->cost().CheapFor(limited, set->user_kernels(), values);
    set->async().Reserve(run_options, values);
    if (here) {
      set.release()->async().RunHere(deadline, run_options.cancellation, std::move(done), metadata, shared_from_this());
    } else {
      set.release()->async().RunAsync(deadline, run_options.cancellation, std::move(done), metadata, shared_from_this(),
                                      0, true);
    }
    Answer answer = wait->Wait();
    if (answer.status.ok() && outputs != nullptr) *outputs = std::move(answer.outputs);
    return answer.status;
  } catch (const std::bad_alloc&) {
    // Before the step began.
    if (set != nullptr) Release(std::move(set));
    return kNoMemory;
  }
}

void Signature::RunAsync(const RunOptions& run_options, const Deadline& deadline, const FeedValues& values,
                         RunCallback done, proto::RunMetadata* metadata, int64_t lend_us) {
  absl::Status s = CheckFeeds(values);
  if (s.ok() && closed->load(std::memory_order_relaxed)) s = Cancelled("the session is closed");
  if (s.ok() && turns != nullptr) s = turns->Start();
  if (!s.ok()) return CallDone(done, std::move(s), {});
  std::unique_ptr<ExecutorSet> set;
  try {
    set = Lease();
    while (gate != nullptr && gate->shut() && gate->Holds(Level())) [[unlikely]] {
        Release(std::move(set));
        if (RunLater(run_options, deadline, values, done, metadata)) return;
        set = Lease();
      }
    set->async().Reserve(run_options, values);
  } catch (const std::bad_alloc&) {
    if (set != nullptr) Release(std::move(set));
    return CallDone(done, kNoMemory, {});
  }
  // The set belongs to the step until its last part releases it.
  set.release()->async().RunAsync(deadline, run_options.cancellation, std::move(done), metadata, shared_from_this(),
                                  lend_us < 0 ? options.lend_thread_us : lend_us, false);
}

bool Signature::RunLater(const RunOptions& run_options, const Deadline& deadline, const FeedValues& values,
                         const RunCallback& done, proto::RunMetadata* metadata) {
  std::vector<Tensor> feeds;
  for (size_t i = 0; i < values.size(); ++i) feeds.push_back(values[i]);
  // The caller's token may go when its call returns; what it stands for is shared.
  std::optional<CancellationToken> token;
  if (run_options.cancellation != nullptr) token = *run_options.cancellation;
  return gate->Queue(
      deadline, run_options.cancellation,
      [self = shared_from_this(), run_options, token, deadline, feeds = std::move(feeds), done,
       metadata](absl::Status s) {
        if (!s.ok()) return CallDone(done, std::move(s), {});
        RunOptions options = run_options;
        options.cancellation = token ? &*token : nullptr;
        // Not on the thread that opens the gate.
        self->RunAsync(options, deadline, absl::MakeConstSpan(feeds), done, metadata, 0);
      },
      Level());
}

void Signature::AbortAll(const absl::Status& status) {
  const CancelLater later;
  std::lock_guard<std::mutex> lock(mu_);
  for (ExecutorSet* set : all_) {
    // In this order: a step that begins now is another one.
    const int64_t step_id = set->step_id();
    if (set->running()) set->Abort(step_id, status);
  }
}

std::vector<caf::actor> Signature::RunningExecutors() {
  std::vector<caf::actor> running;
  std::lock_guard<std::mutex> lock(mu_);
  for (ExecutorSet* set : all_) {
    if (!set->running()) continue;
    for (const auto& e : set->executors()) running.push_back(e->actor());
  }
  return running;
}

void Signature::Ask(const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered,
                    std::vector<Asked>* asked) {
  std::lock_guard<std::mutex> lock(mu_);
  for (ExecutorSet* set : all_) {
    if (!set->running()) continue;
    asked->push_back({set->step_id(), Describe(), std::make_shared<StepQuestion>(set->executors())});
    const std::shared_ptr<StepQuestion> question = asked->back().question;
    if (!question->Ask(&set->transport(), answered)) answered(question);
  }
}

}  // namespace troupe
