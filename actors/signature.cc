#include "actors/signature.h"

#include <algorithm>
#include <caf/all.hpp>

#include <spdlog/spdlog.h>

#include "actors/actor_thread.h"
#include "actors/no_memory.h"
#include "actors/own_result.h"
#include "actors/partial_step.h"
#include "actors/runtime_impl.h"
#include "graph/core/guarded.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// A set takes this many numbers at once, so that steps do not meet at a counter.
constexpr int64_t kStepIds = 1024;
std::atomic<int64_t> next_step_id{1};
// Made when the library is loaded, since memory may be lacking when they are needed; never
// destroyed, since threads may still run at exit.
const absl::Status& kNoMemory = *new absl::Status(ResourceExhausted("no memory is left for the step"));
const absl::Status& kAnotherPartFailed = *new absl::Status(Cancelled("another part of the step failed"));
const absl::Status& kSessionClosed = *new absl::Status(Cancelled("the session was closed"));

// Where a thread looks for a free set first, and where it puts it back: so it finds the set that it
// had before, whose lines are in its core's cache.
size_t FirstSlot() {
  static std::atomic<size_t> next{0};
  thread_local const size_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

}  // namespace

bool InsideActor() { return InsideLane() || MustNotBlockHere() || ComputeThreads::OnWorker() || OnSchedulerThread(); }

absl::Status NotTaken(const std::string& fetch) {
  return InvalidArgument("fetch '", fetch,
                         "' has no value: it is on a branch that was not taken, or inside of a loop, ",
                         "whose last round ends before it (what leaves the loop can be fetched)");
}

// Of the exception that is being handled.
static void LogThrown(std::string_view what) {
  const absl::Status thrown = ThrownStatus(what);
  spdlog::error("{}; it is dropped", std::string_view(thrown.message().data(), thrown.message().size()));
}

void CallDone(const RunCallback& done, absl::Status status, std::vector<Tensor> outputs) noexcept {
  try {
    done(std::move(status), std::move(outputs));
  } catch (...) {
    LogThrown("the callback of an asynchronous step");
  }
}

void ReportStall(const std::function<void(const std::string&)>& on_stall, const std::string& text) {
  if (!on_stall) return spdlog::warn("{}", text);
  try {
    on_stall(text);
  } catch (...) {
    LogThrown("on_stall");
  }
}

bool CheapFeeds::Saw(const std::vector<Tensor>& feeds, int64_t nanos, int64_t limit) {
  const bool covered = Cover(absl::Span<const Tensor>(feeds));
  if (nanos > limit) {
    if (covered) known_ = false;
    return !covered;
  }
  if (covered) return true;
  known_ = false;  // until both are of these feeds
  shapes_.clear();
  characters_.clear();
  for (const Tensor& t : feeds) {
    shapes_.push_back(t.shape());
    characters_.push_back(Characters(t));
  }
  return known_ = true;
}

bool CheapFeeds::Cover(const FeedValues& feeds) const {
  if (!known_ || feeds.size() != shapes_.size()) return false;
  for (size_t i = 0; i < shapes_.size(); ++i) {
    const Tensor& t = feeds[i];
    if (t.rank() != shapes_[i].rank()) return false;
    for (int d = 0; d < t.rank(); ++d) {
      if (t.dim(d) > shapes_[i].dim(d)) return false;
    }
    if (Characters(t) > characters_[i]) return false;
  }
  return true;
}

int64_t CheapFeeds::Characters(const Tensor& feed) {
  if (feed.dtype() != DType::kString) return 0;
  int64_t n = 0;
  const auto* strings = feed.data<std::string>();
  for (int64_t i = 0; i < feed.num_elements(); ++i) n += static_cast<int64_t>(strings[i].size());
  return n;
}

ExecutorSet::ExecutorSet(Signature* signature, caf::actor_system& system)
    : signature_(signature),
      system_(system),
      elsewhere_(signature->turns),
      lane_(&system, elsewhere_),
      context_(std::make_shared<StepContext>()) {
  try {
    std::vector<caf::resumable*> own;
    for (const auto& part : signature->parts) {
      user_kernels_ |= part->has_user_kernels;
      executors_.push_back(std::make_shared<Executor>(part, this));
      executors_.back()->Spawn(system);
      own.push_back(executors_.back()->resumable());
    }
    lane_.Own(std::move(own));
    arguments_.resize(signature->feeds.size());
    loans_ = std::vector<bits::Loan>(signature->feeds.size());
    results_.resize(signature->fetches.size());
    timings_.resize(executors_.size());
  } catch (const std::bad_alloc&) {
    EndExecutors();
    throw;
  }
}

ExecutorSet::~ExecutorSet() { EndExecutors(); }

void ExecutorSet::EndExecutors() {
  for (const auto& e : executors_) {
    if (e->actor()) UntilMemoryAllows([&] { caf::anon_send_exit(e->actor(), caf::exit_reason::user_shutdown); });
  }
}

bool ExecutorSet::usable() const {
  return std::none_of(executors_.begin(), executors_.end(), [](const auto& e) { return e->dead(); });
}

caf::execution_unit* ExecutorSet::Home() {
  if (!in_lane_) return elsewhere_;
  return lane_.IsAttached() ? static_cast<caf::execution_unit*>(&lane_) : lane_.remote();
}

const EdgeTable& ExecutorSet::edges() const { return signature_->edges; }

absl::Status ExecutorSet::Deliver(PartAddress to, part_message message) {
  if (to.part >= executors_.size()) return NotFound("the step has no part ", to.part);
  if (signature_->options.wire_messages) [[unlikely]] {
    TROUPE_ASSIGN_OR_RETURN(message, ThroughBytes(system_, std::move(message)));
    if (auto* m = std::get_if<tensor_to_part>(&message)) Bind(&m->value);
    if (auto* m = std::get_if<argument>(&message)) Bind(&m->value);
  }
  TROUPE_RETURN_IF_ERROR(signature_->edges.Refuse(message));
  executors_[to.part]->Receive(std::move(message));
  return absl::OkStatus();
}

void ExecutorSet::Bind(Tensor* value) const {
  BindResources(value, [this](const std::string& name) -> ResourceContainers* {
    for (const auto& d : signature_->runtime->impl()->devices) {
      if (d->name() == name) return d->containers();
    }
    return nullptr;
  });
}

void ExecutorSet::AbortPart(size_t part, int64_t step_id, const absl::Status& status) noexcept {
  if (signature_->options.wire_messages) [[unlikely]] {
    try {
      if (Deliver({0, static_cast<uint32_t>(part)}, abort_step{step_id, status}).ok()) return;
    } catch (const std::bad_alloc&) {
      // Then without the bytes.
    }
  }
  executors_[part]->Abort(step_id, status);
}

// A kernel of an aborted step may still look at the old context.
void ExecutorSet::Renew() {
  if (context_.use_count() == 1) [[likely]]
    return;
  auto fresh = std::make_shared<StepContext>();
  // A Stop of the step before may still look at it.
  std::lock_guard<std::mutex> lock(mu_);
  context_.swap(fresh);
}

void ExecutorSet::Reserve(const RunOptions& options, const FeedValues& feeds) {
  run_options_ = options;
  run_options_.cancellation = nullptr;
  held_feeds_.clear();
  for (size_t i = 0; i < feeds.size(); ++i) held_feeds_.push_back(feeds[i]);
  Renew();
}

void ExecutorSet::Begin(const FeedValues& feeds, bool answers) {
  if (next_id_ == last_id_) [[unlikely]] {
    next_id_ = next_step_id.fetch_add(kStepIds, std::memory_order_relaxed);
    last_id_ = next_id_ + kStepIds;
  }
  const int64_t id = next_id_++;
  step_id_.store(id);
  // A Stop that comes from here on sees that its step is over. One that has looked before is let
  // out.
  if (stops_.load() != 0) [[unlikely]] {
    std::lock_guard<std::mutex> wait(mu_);
  }
  context_->step_id = id;
  context_->cancelled.store(false, std::memory_order_relaxed);
  if (context_->cancellations.used()) context_->cancellations.Clear();
  if (context_->resources.used()) context_->resources.ClearAll();
  TakeError().IgnoreError();
  if (answers) owed_.store(id);
  // From here on AbortAll finds the step. A session that was closed before did not see it, but is
  // seen here.
  parts_left_.store(static_cast<int>(executors_.size()));
  if (signature_->closed->load()) {
    SetError(kSessionClosed);
    context_->cancelled.store(true, std::memory_order_relaxed);
  }
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (loans_[i].Begin(feeds[i], &arguments_[i])) [[likely]]
      continue;
    SetError(kNoMemory);
    context_->cancelled.store(true, std::memory_order_relaxed);
  }
}

void ExecutorSet::Launch(caf::execution_unit* home, bool stats) noexcept {
  StepInput input;
  input.context = context_;
  input.arguments = arguments_.data();
  input.results = results_.data();
  input.partial = partial_ != nullptr;
  input.token_messages = signature_->options.token_messages;
  input.check_kernels = signature_->options.check_kernels;
  input.measure = std::exchange(measure_next_, false);
  const int parts = static_cast<int>(executors_.size());
  absl::Status failed;
  try {
    for (int i = 0; i < parts; ++i) {
      timings_[i].clear();
      input.timings = stats ? &timings_[i] : nullptr;
      failed = Prepare(i, input);
      if (!failed.ok()) break;
    }
  } catch (const std::bad_alloc&) {
    failed = kNoMemory;
  }
  if (!failed.ok()) {
    // No part has begun, and none will.
    SetError(failed);
    context_->cancelled.store(true, std::memory_order_relaxed);
    if (parts_left_.fetch_sub(parts, std::memory_order_acq_rel) == parts && (!in_lane_ || lent_)) OnOver();
    return;
  }
  // Without a lane the step may end, and this object with it, as soon as the last part has been
  // started.
  std::shared_ptr<Executor> last;
  if (home == elsewhere_ && parts > 0) last = executors_.back();
  for (int i = 0; i < parts; ++i) executors_[i]->Start(home);
}

absl::Status ExecutorSet::Prepare(size_t part, const StepInput& input) {
  if (!signature_->options.wire_messages) [[likely]] {
    executors_[part]->Prepare(input);
    return absl::OkStatus();
  }
  begin_step m;
  m.step = input.context->step_id;
  m.cancelled = input.context->cancelled.load();
  m.partial = input.partial;
  m.token_messages = input.token_messages;
  m.check_kernels = input.check_kernels;
  m.measure = input.measure;
  m.timed = input.timings != nullptr;
  m.num_results = static_cast<uint32_t>(results_.size());
  for (uint32_t i = 0; i < executors_[part]->state().part().num_arguments; ++i) m.arguments.push_back(arguments_[i]);
  TROUPE_ASSIGN_OR_RETURN(begin_step copy, wire::ThroughBytes(system_, m));
  for (Tensor& t : copy.arguments) Bind(&t);
  executors_[part]->Prepare(std::move(copy));
  return absl::OkStatus();
}

void ExecutorSet::PartDone(Executor* executor, part_done message) {
  const auto part = static_cast<size_t>(
      std::find_if(executors_.begin(), executors_.end(), [&](const auto& e) { return e.get() == executor; }) -
      executors_.begin());
  absl::Status status;
  try {
    absl::StatusOr<part_done> copy = wire::ThroughBytes(system_, message);
    status = copy.ok() ? copy->status : copy.status();
    if (copy.ok()) {
      for (auto& [index, value] : copy->results) {
        if (index >= results_.size()) continue;
        Bind(&value);
        results_[index] = std::move(value);
      }
      for (const node_run& n : copy->statistics)
        timings_[part].push_back({n.node, n.thread, n.start_nanos, n.end_nanos});
    }
  } catch (const std::bad_alloc&) {
    status = kNoMemory;
  }
  PartDone(executor, status);
}

void ExecutorSet::PartFails(Executor* executor, const absl::Status& status) {
  if (!SetError(status)) return;
  context_->cancelled.store(true, std::memory_order_relaxed);
  for (size_t i = 0; i < executors_.size(); ++i) {
    if (executors_[i].get() != executor) AbortPart(i, context_->step_id, kAnotherPartFailed);
  }
  context_->Cancel();
}

void ExecutorSet::PartDone(Executor* executor, const absl::Status& status) {
  if (!status.ok()) PartFails(executor, status);
  const auto last = [this] { return parts_left_.fetch_sub(1, std::memory_order_acq_rel) == 1; };
  if (in_lane_ && !lent_) {
    // From another thread than the lane's, the set may be gone as soon as no part is left.
    if (lane_.IsAttached()) {
      last();
    } else {
      lane_.WakeIf(last);
    }
    return;
  }
  if (last()) OnOver();
}

bool ExecutorSet::SetError(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!status_.ok()) return false;
  status_ = status;
  failed_.store(true, std::memory_order_release);
  return true;
}

absl::Status ExecutorSet::TakeError() {
  if (!failed_.load(std::memory_order_acquire)) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(mu_);
  failed_.store(false, std::memory_order_relaxed);
  return std::exchange(status_, absl::OkStatus());
}

void ExecutorSet::Stop(int64_t step_id, const absl::Status& status) {
  stops_.fetch_add(1);
  bool runs = false;
  std::shared_ptr<StepContext> context;
  {
    std::lock_guard<std::mutex> lock(mu_);
    // The set may have another step by now, which is nobody's business here.
    runs = step_id_.load() == step_id;
    if (runs) {
      if (status_.ok()) status_ = status;
      failed_.store(true);
      context = context_;
      context->cancelled.store(true, std::memory_order_relaxed);
    }
  }
  stops_.fetch_sub(1);
  if (!runs) return;
  // A part that has not begun yet drops the message, but looks at the flag when it begins.
  for (size_t i = 0; i < executors_.size(); ++i) AbortPart(i, step_id, status);
  context->Cancel();
}

// Tensor arrays, stacks and temporaries go with the step that made them. A kernel that still runs,
// of a step that was aborted, keeps its own.
void ExecutorSet::DropResources() {
  if (context_->cancellations.used()) {
    context_->cancellations.Clear();
    context_->cancellations.Cancel();  // a kernel that is left hears that it comes too late
  }
  if (!context_->resources.used()) return;
  if (context_.use_count() == 1) return context_->resources.ClearAll();
  std::shared_ptr<StepContext> fresh;
  try {
    fresh = std::make_shared<StepContext>();
  } catch (const std::bad_alloc&) {
    return;  // the next step gets a context of its own, or does not begin
  }
  std::lock_guard<std::mutex> lock(mu_);
  context_.swap(fresh);
}

void ExecutorSet::Abort(int64_t step_id, const absl::Status& status) {
  Stop(step_id, status);
  if (signature_->watch != nullptr) signature_->watch->Stopped(this, step_id);
}

// A token leaves the step before it is over.
void ExecutorSet::OnCancel() { Abort(step_id(), CancelledByCaller()); }

bool ExecutorSet::AnswerEarly(int64_t step_id, const std::vector<std::string>& lines, EarlyAnswer* answer) {
  if (!owed_.compare_exchange_strong(step_id, 0)) return false;
  std::unique_lock<std::mutex> lock(mu_);
  // First: whoever has no memory for the rest of this still answers with the error.
  answer->status = status_;
  lock.unlock();
  answer->done = std::move(done_);
  answer->partial = partial_;
  metadata_ = nullptr;
  lock.lock();
  // Other steps go on meanwhile, also where this one has every thread in a turn or job.
  if (signature_->turns != nullptr) {
    std::vector<const void*> owners{context_.get()};
    for (const auto& e : executors_) {
      owners.push_back(e->resumable());
      if (signature_->options.wire_messages) owners.push_back(e->own_context());
    }
    signature_->turns->LoseWorkers(owners);
  }
  std::string culprits;
  for (const std::string& line : lines) {
    if (line.rfind(' ', 0) != 0) StrAppend(&culprits, "\n  ", line);
  }
  if (culprits.empty()) return true;
  answer->status = absl::Status(
      status_.code(), StrCat(status_.message(), "; this has not returned, and goes on in the background:", culprits));
  return true;
}

std::string ExecutorSet::Describe() const { return signature_->Describe(); }

absl::Status ExecutorSet::Finish(std::vector<Tensor>* outputs) {
  DropResources();
  if (!executors_.empty() && executors_.front()->state().timed()) [[unlikely]]
    Measure();
  for (size_t i = 0; i < arguments_.size(); ++i) loans_[i].End(&arguments_[i]);
  absl::Status status = TakeError();
  if (status.ok()) {
    try {
      for (size_t i = 0; i < results_.size(); ++i) {
        if (!results_[i].valid()) {
          status = NotTaken(signature_->fetches[i]);
          break;
        }
      }
    } catch (const std::bad_alloc&) {
      status = kNoMemory;
    }
  }
  if (status.ok() && outputs != nullptr) {
    try {
      outputs->resize(results_.size());
      for (size_t i = 0; i < results_.size(); ++i) {
        Tensor& result = (*outputs)[i] = std::move(results_[i]);
        if (absl::Status own = OwnResult(signature_->fetches[i], &result); !own.ok()) [[unlikely]]
          status = std::move(own);
      }
    } catch (const std::bad_alloc&) {
      status = kNoMemory;
    }
    if (!status.ok()) [[unlikely]]
      outputs->clear();
  }
  for (Tensor& t : results_) t = Tensor();
  return status;
}

int64_t ExecutorSet::nodes_run() const {
  int64_t nodes = 0;
  for (const auto& e : executors_) nodes += e->state().nodes_run();
  return nodes;
}

void ExecutorSet::Measure() {
  if (failed_.load(std::memory_order_relaxed)) return;
  int64_t nanos = 0;
  for (const auto& e : executors_) {
    if (!e->state().timed()) return;
    nanos += e->turn_nanos() + e->state().job_nanos();
  }
  measured_nanos_ = nanos;
  try {
    const bool lane = for_lane_.Saw(arguments_, nanos, kLimitedNanos);
    const bool lending = for_lending_.Saw(arguments_, nanos, signature_->options.lend_thread_us * 1000);
    // Another process may have had the processor; the next step tells.
    if (!lane || !lending) measure_next_ = true;
  } catch (const std::bad_alloc&) {
    // They know nothing then.
  }
}

void ExecutorSet::Overran() {
  measured_nanos_ = -1;
  for_lane_.Forget();
  for_lending_.Forget();
  measure_next_ = true;
}

bool ExecutorSet::CheapFor(bool limited, const FeedValues& feeds) const {
  if (limited) return !user_kernels_ && for_lane_.Cover(feeds);
  return measured_nanos_ >= 0 && measured_nanos_ <= kUsersNanos;
}

absl::Status ExecutorSet::RunBlocking(const RunOptions& options, const Deadline& deadline, const FeedValues& feeds,
                                      std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  Renew();
  lane_.Attach();
  in_lane_ = true;
  lent_ = false;
  {
    const LaneTurn turn;
    ScopedFlushDenormals flush;
    NoLoggerMeanwhile quiet(&system_);
    Begin(feeds, false);
    Guard(options.cancellation, deadline);
    Launch(&lane_, options.collect_stats && metadata != nullptr);
    for (;;) {
      if (lane_.DrainSome()) continue;
      if (!running()) break;
      HelpJobs();
      lane_.Wait();
    }
    EndGuard();
  }
  lane_.Detach();
  if (metadata != nullptr) FillMetadata(options, metadata);
  return Finish(outputs);
}

// The lane's thread has nothing to run, but the step's jobs may have. All of a step's devices share
// their threads.
void ExecutorSet::HelpJobs() {
  for (const auto& e : executors_) {
    if (!e->state().has_jobs()) continue;
    return e->state().part().device->threads()->Help(context_.get(), [&] { return lane_.Stirred(); });
  }
}

void ExecutorSet::Guard(const CancellationToken* token, const Deadline& deadline) noexcept {
  if (executors_.empty()) return;  // over before anybody could
  const auto fail = [this](const absl::Status& status) {
    context_->cancelled.store(true, std::memory_order_relaxed);
    SetError(status);
  };
  try {
    if (token != nullptr) {
      cancellation_.emplace(token, this);
      if (cancellation_->cancelled()) fail(CancelledByCaller());
    }
    const int64_t stall_ms = signature_->options.stall_report_ms;
    if (signature_->watch == nullptr) return;
    if (deadline.ms > 0 || stall_ms > 0) {
      watched_ = true;
      signature_->watch->Add(this, step_id(), deadline, stall_ms);
    }
    // Told to end before the watch could hear of it: it must not wait for a thread.
    if (failed_.load()) {
      watched_ = true;
      signature_->watch->Stopped(this, step_id(), false);
    }
  } catch (const std::bad_alloc&) {
    // The parts see it when they begin.
    fail(kNoMemory);
  }
}

void ExecutorSet::EndGuard() {
  cancellation_.reset();
  if (std::exchange(watched_, false)) signature_->watch->Remove(this);
}

void ExecutorSet::RunPartial(const Deadline& deadline, const CancellationToken* token,
                             std::shared_ptr<PartialStep> partial) {
  in_lane_ = lent_ = false;
  partial_ = std::move(partial);
  Begin({}, true);
  Guard(token, deadline);
  if (executors_.empty()) return OnOver();
  Launch(elsewhere_, false);
}

void ExecutorSet::Feed(uint32_t index, const Tensor& value) {
  const int64_t step = step_id_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < executors_.size(); ++i) {
    if (index >= executors_[i]->state().part().num_arguments) continue;
    if (absl::Status s = Deliver({0, i}, argument{step, index, value}); !s.ok()) Stop(step, s);
  }
}

void ExecutorSet::ResultCame(result message) {
  absl::StatusOr<result> copy = wire::ThroughBytes(system_, message);
  if (!copy.ok()) return Stop(message.step, copy.status());
  if (copy->index >= results_.size()) return;
  Bind(&copy->value);
  results_[copy->index] = std::move(copy->value);
  ResultReady(copy->index);
}

void ExecutorSet::ResultReady(uint32_t index) { partial_->OnResult(index, std::move(results_[index])); }

// Statistics for which there is no memory are missing.
void ExecutorSet::FillMetadata(const RunOptions& options, proto::RunMetadata* metadata) const noexcept try {
  if (options.collect_stats) {
    for (size_t i = 0; i < executors_.size(); ++i) {
      const CompiledPart& part = *signature_->parts[i];
      proto::DeviceStepStats* device = metadata->mutable_step_stats()->add_dev_stats();
      device->set_device(part.device->name());
      for (const NodeTiming& t : timings_[i]) {
        proto::NodeExecStats* n = device->add_node_stats();
        n->set_node_name(std::string(part.info[t.node].name));
        n->set_timeline_label(StrCat(part.info[t.node].name, " = ", part.info[t.node].op));
        n->set_all_start_micros((t.start_nanos) / 1000);
        n->set_op_start_rel_micros(0);
        n->set_op_end_rel_micros((t.end_nanos - t.start_nanos) / 1000);
        n->set_all_end_rel_micros((t.end_nanos - t.start_nanos) / 1000);
        n->set_all_start_nanos(t.start_nanos);
        n->set_all_end_rel_nanos(t.end_nanos - t.start_nanos);
        n->set_thread_id(t.thread);
      }
    }
  }
} catch (const std::bad_alloc&) {
  spdlog::error("no memory is left for the statistics of a step");
}

Signature::~Signature() {
  for (Slot& s : free_) delete s.set.load();
}

std::unique_ptr<ExecutorSet> Signature::Lease() {
  const size_t mine = FirstSlot();
  for (size_t i = 0; i < kSlots; ++i) {
    Slot& s = free_[(mine + i) % kSlots];
    if (s.set.load(std::memory_order_relaxed) == nullptr) continue;
    if (ExecutorSet* set = s.set.exchange(nullptr, std::memory_order_acquire)) {
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
      if (s.set.compare_exchange_strong(expected, set.get(), std::memory_order_release, std::memory_order_relaxed)) {
        (void)set.release();  // the slot has it
        return;
      }
    }
  }
  std::lock_guard<std::mutex> lock(mu_);
  all_.erase(set.get());
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
  return ms <= 0 ? Deadline() : Deadline::In(ms, watch != nullptr ? watch->Now() : Clock::now());
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
    if ((!limited && !set->user_kernels()) || (turns != nullptr && !turns->Start().ok())) {
      absl::Status s = set->RunBlocking(run_options, deadline, values, outputs, metadata);
      Release(std::move(set));
      return s;
    }
    // The answer comes in time, whatever the step's kernels do.
    struct Answer {
      Answer(absl::Status s, std::vector<Tensor> o = {}) : status(std::move(s)), outputs(std::move(o)) {}  // NOLINT
      absl::Status status;
      std::vector<Tensor> outputs;
    };
    auto wait = std::make_shared<CallWait<Answer>>();
    RunCallback done = [wait](absl::Status s, std::vector<Tensor> o) { wait->Set(Answer(std::move(s), std::move(o))); };
    const bool here = set->CheapFor(limited, values);
    set->Reserve(run_options, values);
    if (here) {
      set.release()->RunHere(deadline, run_options.cancellation, std::move(done), metadata, shared_from_this());
    } else {
      set.release()->RunAsync(deadline, run_options.cancellation, std::move(done), metadata, shared_from_this(), 0);
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
    set->Reserve(run_options, values);
  } catch (const std::bad_alloc&) {
    if (set != nullptr) Release(std::move(set));
    return CallDone(done, kNoMemory, {});
  }
  // The set belongs to the step until its last part releases it.
  set.release()->RunAsync(deadline, run_options.cancellation, std::move(done), metadata, shared_from_this(),
                          lend_us < 0 ? options.lend_thread_us : lend_us);
}

void Signature::AbortAll(const absl::Status& status) {
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
    asked->back().question->Ask(answered);
  }
}

}  // namespace troupe
