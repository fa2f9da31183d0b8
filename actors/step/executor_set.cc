#include "actors/step/executor_set.h"

#include <algorithm>
#include <caf/all.hpp>

#include "actors/runtime/runtime_impl.h"
#include "actors/signature/signature.h"
#include "actors/step/answers.h"
#include "actors/step/cancel_later.h"
#include "actors/step/own_result.h"
#include "actors/step/remote_steps.h"
#include "actors/threads/loop_turns.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/surely.h"
#include "actors/threads/turn_threads.h"
#include "actors/trace/step_statistics.h"
#include "graph/core/clock.h"
#include "graph/core/log.h"
#include "kernels/numerics_check.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace {

// A set takes this many numbers at once, so that steps do not meet at a counter.
constexpr int64_t kStepIds = 1024;
std::atomic<int64_t> next_step_id{1};
// Made when the library is loaded, since memory may be lacking when they are needed; never
// destroyed, since threads may still run at exit.
const absl::Status& kNotTakenBack = *new absl::Status(DataLoss(
    "the step failed its check for NaN and infinities, and no memory was left to take back all of its updates: "
    "some variables may have what it gave them"));
const absl::Status& kSessionClosed = *new absl::Status(Cancelled("the session was closed"));

}  // namespace

ExecutorSet::ExecutorSet(Signature* signature, caf::actor_system& system)
    : signature_(signature),
      system_(system),
      elsewhere_(signature->turns),
      lane_(&system, elsewhere_),
      context_(std::make_shared<StepContext>()),
      cost_(signature->options.lend_thread_us * 1000),
      async_(this) {
  transport_ = std::make_shared<LocalTransport>(&system, signature->options.wire_messages, signature->runtime.get(),
                                                &signature->edges, &executors_, this, signature->first_part);
  try {
    std::vector<caf::resumable*> own;
    for (const auto& part : signature->parts) {
      user_kernels_ |= part->has_user_kernels;
      quick_kernels_ &= !part->has_user_kernels && !part->prints && !part->syncs;
      const auto number = static_cast<uint32_t>(executors_.size());
      const PartAddress address{signature->tasks.empty() ? 0 : signature->tasks[number],
                                signature->first_part + number};
      executors_.push_back(std::make_shared<Executor>(part, address, this, transport_));
      executors_.back()->Spawn(system);
      own.push_back(executors_.back()->resumable());
    }
    lane_.Own(std::move(own));
    arguments_.resize(signature->feeds.size());
    loans_ = std::vector<bits::Loan>(signature->feeds.size());
    results_.resize(signature->fetches.size());
    timings_.resize(executors_.size());
    shares_ = static_cast<int>(executors_.size());
    if (signature->remote != nullptr) {
      remote_ = std::make_shared<RemoteParts>(signature->remote);
      transport_->LinkTo(remote_);
      shares_ += static_cast<int>(remote_->size());
      remote_statistics_.resize(remote_->size());
      // Another process may not answer, as a user's kernel may not return: the caller must not wait
      // in the lane, where neither Close nor the other's death would reach it. So its step is an
      // asynchronous one, on which the caller's thread works while something here can run
      // (lend.cc).
      user_kernels_ = true;
    }
  } catch (const std::bad_alloc&) {
    EndExecutors();
    throw;
  }
}

ExecutorSet::~ExecutorSet() { EndExecutors(); }

void ExecutorSet::EndExecutors() {
  for (const auto& e : executors_) {
    e->LeaveGroup();
    const caf::actor& to = e->actor();
    if (to) SendSurely(system_, to, [&] { return caf::exit_msg{to.address(), caf::exit_reason::user_shutdown}; });
  }
}

bool ExecutorSet::usable() const {
  return std::none_of(executors_.begin(), executors_.end(), [](const auto& e) { return e->dead(); });
}

int64_t ExecutorSet::nodes_run() const {
  int64_t nodes = 0;
  for (const auto& e : executors_) nodes += e->state().nodes_run();
  return nodes;
}

std::string ExecutorSet::Describe() const { return signature_->Describe(); }

caf::execution_unit* ExecutorSet::Home() {
  if (!in_lane_.load(std::memory_order_acquire)) {
    if (!in_loop()) [[likely]]
      return elsewhere_;
    if (LoopTurns* const loop = LoopTurns::Here()) return loop;
    return elsewhere_;
  }
  return lane_.IsAttached() ? static_cast<caf::execution_unit*>(&lane_) : lane_.remote();
}

void ExecutorSet::LetRunInLoop(const FeedValues& feeds, bool waits) noexcept {
  came_.store(0, std::memory_order_relaxed);
  if (const int64_t nanos = long_turn_->exchange(0)) {
    cost_.Overran();
    signature_->LeaveLoop(nanos);
  }
  in_loop_.store(waits && elsewhere_ != nullptr && quick_kernels_ && numerics_ == nullptr &&
                 cost_.TakesAtMost(kLoopNanos, feeds) && signature_->MayUseLoop());
}

bool ExecutorSet::MayEndHere() const {
  if (LoopTurns::Here() == nullptr) return true;
  constexpr size_t kMost = size_t{64} << 10;
  size_t bytes = 0;
  for (const Tensor& t : results_) {
    if (!t.valid()) continue;
    bytes += t.bytes();
    if (t.dtype() != DType::kString) continue;
    const auto* const s = static_cast<const std::string*>(t.raw());
    for (int64_t i = 0; i < t.num_elements() && bytes <= kMost; ++i) bytes += s[i].size();
  }
  return bytes <= kMost;
}

void ExecutorSet::EnterLane() {
  lane_.Attach();
  in_lane_.store(true, std::memory_order_release);
}

void ExecutorSet::LeaveLane() {
  in_lane_.store(false, std::memory_order_release);
  lane_.Detach();
}

const EdgeTable& ExecutorSet::edges() const { return signature_->edges; }

// A kernel of an aborted step may still look at the old context.
void ExecutorSet::Renew() {
  if (context_.use_count() == 1) [[likely]]
    return;
  auto fresh = std::make_shared<StepContext>();
  // A Stop of the step before may still look at it.
  std::lock_guard<std::mutex> lock(mu_);
  context_.swap(fresh);
}

// A Stop of the step before took its share after Renew, and is going to call the context's list.
bool ExecutorSet::RenewLate() noexcept {
  try {
    Renew();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void ExecutorSet::Begin(Step* step, const FeedValues& feeds, bool answers) {
  step_ = step;
  in_loop_.store(false, std::memory_order_relaxed);
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
  bool no_memory = false;
  if (context_.use_count() != 1) [[unlikely]]
    no_memory = !RenewLate();
  context_->step_id = id;
  context_->cancelled.store(false, std::memory_order_relaxed);
  if (context_->cancellations.used()) context_->cancellations.Clear();
  if (context_->resources.used()) context_->resources.ClearAll();
  TakeError().IgnoreError();
  if (answers) owed_.store(id);
  // From here on AbortAll finds the step. A session that was closed before did not see it, but is
  // seen here.
  parts_left_.store(shares_);
  if (signature_->closed->load()) FailBegin(kSessionClosed);
  if (no_memory) [[unlikely]]
    FailBegin(kNoMemory);
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (loans_[i].Begin(feeds[i], &arguments_[i])) [[likely]]
      continue;
    FailBegin(kNoMemory);
  }
}

void ExecutorSet::BeginNumerics(const std::string& folder) noexcept {
  try {
    numerics_ = std::make_shared<NumericsCheck>();
    numerics_->folder = folder;
  } catch (const std::bad_alloc&) {
    FailBegin(kNoMemory);
  }
}

void ExecutorSet::EndNumerics() {
  const std::shared_ptr<NumericsCheck> numerics = std::move(numerics_);
  if (remote_ != nullptr) remote_->Settle(step_id(), numerics->log->failed());
  if (!numerics->log->failed()) return;
  try {
    numerics->log->UndoAll();
  } catch (const std::bad_alloc&) {
    // Not what the check said: that the variables keep what they had.
    TakeError().IgnoreError();
    SetError(kNotTakenBack);
  }
}

void ExecutorSet::Launch(caf::execution_unit* home, bool stats) noexcept {
  StepInput input;
  input.context = context_;
  input.arguments = arguments_.data();
  input.results = results_.data();
  input.partial = step_->partial();
  input.token_messages = signature_->options.token_messages;
  input.check_kernels = signature_->options.check_kernels;
  input.measure = cost_.TakeMeasureNext();
  input.numerics = numerics_;
  const int parts = static_cast<int>(executors_.size());
  absl::Status failed;
  try {
    if (remote_ != nullptr) [[unlikely]] {
      for (RemoteStatistics& of_before : remote_statistics_) of_before.bytes.clear();
      if (stats) timed_since_ = NowNanos();
      remote_->Prepare(context_->step_id, arguments_, input.partial, stats, numerics_.get());
    }
    for (int i = 0; i < parts; ++i) {
      timings_[i].clear();
      input.timings = stats ? TimingsOf(i) : nullptr;
      run_step message;
      message.num_arguments = signature_->parts[i]->num_arguments;
      if (i + 1 < parts) {
        message.input = input;
      } else {
        message.input = std::move(input);
      }
      failed = transport_->Prepare(executors_[i]->address(), std::move(message));
      if (!failed.ok()) break;
    }
  } catch (const std::bad_alloc&) {
    failed = kNoMemory;
  }
  if (!failed.ok()) {
    // No part has begun, and none will.
    FailBegin(failed);
    if (CountDown(shares_)) step_->Over();
    return;
  }
  if (remote_ != nullptr) [[unlikely]]
    return LaunchRemote(home);
  // Without a lane the step may end, and this object with it, as soon as the last part has been
  // started.
  std::shared_ptr<Executor> last;
  if (home != &lane_ && parts > 0) last = executors_.back();
  for (int i = 0; i < parts; ++i) executors_[i]->Start(home);
}

void ExecutorSet::LaunchElsewhere(bool stats) noexcept { Launch(elsewhere_, stats); }

[[gnu::cold]] std::vector<node_run>* ExecutorSet::TimingsOf(int part) {
  if (part == 0) timed_since_ = NowNanos();
  return &timings_[static_cast<size_t>(part)];
}

// The step does not end meanwhile: this thread has a share of it.
void ExecutorSet::LaunchRemote(caf::execution_unit* home) noexcept {
  CountUp();
  RemoteSteps& steps = *signature_->runtime->impl()->remote_steps;
  int missed = static_cast<int>(remote_->size());
  absl::Status failed;
  try {
    steps.Begin(context_->step_id, this);
    missed = 0;
    failed = remote_->Launch(context_->cancelled.load(), &missed);
  } catch (const std::bad_alloc&) {
    failed = kNoMemory;
    for (size_t i = 0; i < remote_->size(); ++i) {
      if (!remote_->TakeOwed(i, context_->step_id)) continue;
      // It may have been reached.
      remote_->SendAbort(i, context_->step_id, kNoMemory);
      ++missed;
    }
  }
  if (missed > 0) CountDown(missed);
  // Who told the step to end while the messages were sent may not have found whom to tell.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (context_->cancelled.load()) remote_->Abort(LocalTransport::kAll, context_->step_id, kToldToEnd);
  for (const auto& e : executors_) e->Start(home);
  if (!failed.ok()) PartFails(LocalTransport::kAll, failed);
  step_->PartDone();
}

void ExecutorSet::EndRemote() { signature_->runtime->impl()->remote_steps->End(step_id()); }

void ExecutorSet::RemoteDone(size_t task, parts_done&& message) {
  const int64_t heard = message.statistics.empty() ? 0 : NowNanos();
  // Whoever asks next has it compiled, and registered, anew.
  if (message.forgotten) signature_->SetStale();
  if (message.failed_check && numerics_ != nullptr) numerics_->log->Fail();
  if (!message.status.ok()) PartFails(remote_->plan().tasks[task].first_part, message.status);
  try {
    for (auto& [index, value] : message.results) {
      transport_->Bind(&value);
      if (index < results_.size()) results_[index] = std::move(value);
    }
  } catch (const std::bad_alloc&) {
    PartFails(LocalTransport::kAll, kNoMemory);  // the share is given back all the same
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    remote_statistics_[task] = {std::move(message.statistics), heard};
  }
  step_->PartDone();
}

void ExecutorSet::RemoteTells(step_letter&& message) {
  try {
    if (const auto* failed = std::get_if<part_failed>(&message.message)) {
      PartFails(message.from.part, failed->status);
    } else if (auto* r = std::get_if<result>(&message.message)) {
      transport_->Bind(&r->value);
      if (step_->partial() && r->index < results_.size()) step_->ResultCame(r->index, std::move(r->value));
    }
    if (auto* report = std::get_if<stall_report>(&message.message))
      transport_->questions().Answered(report->number, message.from.part, std::move(report->report));
  } catch (const std::bad_alloc&) {
    PartFails(LocalTransport::kAll, kNoMemory);  // the share is given back all the same
  }
  step_->PartDone();
}

void ExecutorSet::RemoteLost(int64_t step_id, const absl::Status& status) {
  Abort(step_id, status);
  step_->PartDone();
}

void ExecutorSet::PartDone(uint32_t part, part_done& message) {
  if (!message.status.ok()) [[unlikely]]
    PartFails(part, message.status);
  if (!message.results.empty() || !message.statistics.empty()) [[unlikely]]
    TakeResults(part, message);
  // The last share, perhaps; whoever finishes the step looks whether kernels have others.
  message.input.context.reset();
  step_->PartDone();
}

void ExecutorSet::TakeResults(uint32_t part, part_done& message) {
  for (auto& [index, value] : message.results) {
    if (index < results_.size()) results_[index] = std::move(value);
  }
  timings_[part - signature_->first_part] = std::move(message.statistics);
}

void ExecutorSet::ResultCame(uint32_t index, Tensor value) { step_->ResultCame(index, std::move(value)); }

// The lane's thread has nothing to run, but the step's jobs may have. All of a step's devices share
// their threads.
void ExecutorSet::HelpJobs() {
  for (const auto& e : executors_) {
    if (!e->state().has_jobs()) continue;
    return e->state().part().device->threads()->Help(context_.get(), [&] { return lane_.Stirred(); });
  }
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

__attribute__((always_inline)) inline absl::Status ExecutorSet::HandOver(std::vector<Tensor>* outputs) {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!results_[i].valid()) return NotTaken(signature_->fetches[i]);
  }
  if (outputs == nullptr) return absl::OkStatus();
  absl::Status status;
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
  return status;
}

absl::Status ExecutorSet::Finish(std::vector<Tensor>* outputs) {
  if (remote_ != nullptr) [[unlikely]]
    EndRemote();
  if (numerics_ != nullptr) [[unlikely]]
    EndNumerics();
  DropResources();
  if (!executors_.empty() && executors_.front()->state().timed()) [[unlikely]]
    Measure();
  for (size_t i = 0; i < arguments_.size(); ++i) loans_[i].End(&arguments_[i]);
  absl::Status status = TakeError();
  if (status.ok()) {
    try {
      status = HandOver(outputs);
    } catch (const std::bad_alloc&) {
      status = kNoMemory;
    }
  }
  for (Tensor& t : results_) t = Tensor();
  return status;
}

absl::Status ExecutorSet::FinishForMaster(std::vector<std::pair<uint32_t, Tensor>>* results,
                                          std::shared_ptr<UpdateLog>* updates) {
  if (numerics_ != nullptr) *updates = std::exchange(numerics_, nullptr)->log;
  DropResources();
  if (!executors_.empty() && executors_.front()->state().timed()) Measure();
  for (size_t i = 0; i < arguments_.size(); ++i) loans_[i].End(&arguments_[i]);
  absl::Status status = TakeError();
  for (uint32_t i = 0; i < results_.size(); ++i) {
    Tensor value = std::exchange(results_[i], Tensor());
    if (status.ok() && value.valid()) results->emplace_back(i, std::move(value));
  }
  return status;
}

absl::Status ExecutorSet::FinishPartial() {
  if (remote_ != nullptr) [[unlikely]]
    EndRemote();
  if (numerics_ != nullptr) [[unlikely]]
    EndNumerics();
  for (Tensor& t : results_) t = Tensor();
  DropResources();
  return TakeError();
}

void ExecutorSet::Measure() {
  if (failed_.load(std::memory_order_relaxed)) return;
  int64_t nanos = 0;
  for (const auto& e : executors_) {
    if (!e->state().timed()) return;
    nanos += e->turn_nanos() + e->state().job_nanos();
  }
  cost_.Saw(arguments_, nanos);
  if (nanos <= kLoopNanos) short_with_.store(came_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void ExecutorSet::AddRemoteStatistics(proto::RunMetadata* metadata) const {
  RemoteSteps& steps = *signature_->runtime->impl()->remote_steps;
  std::vector<OtherStatistics> others;
  for (size_t i = 0; i < remote_statistics_.size(); ++i) {
    const auto& [bytes, heard] = remote_statistics_[i];
    OtherStatistics other;
    if (bytes.empty() || !ReadStatistics(bytes, &other.metadata)) continue;
    const RemotePlan::Task& task = remote_->plan().tasks[i];
    const proto::StepTrace::Process& there = other.metadata.step_trace().own();
    other.task = remote_->plan().NameOf(task);
    other.clock =
        steps.Exchanged(task.incarnation, remote_->sent_nanos(i), there.begin_nanos(), there.end_nanos(), heard);
    others.push_back(std::move(other));
  }
  AddAligned(std::move(others), metadata);
}

// Statistics for which there is no memory are missing.
void ExecutorSet::FillMetadata(const RunOptions& options, proto::RunMetadata* metadata) const noexcept try {
  if (!options.collect_stats) return;
  const int64_t over = NowNanos();
  for (size_t i = 0; i < executors_.size(); ++i)
    AddPartStatistics(*signature_->parts[i], timings_[i], timed_since_, metadata);
  proto::StepTrace::Process* const own = metadata->mutable_step_trace()->mutable_own();
  if (!executors_.empty()) {
    const std::string& device = signature_->parts.front()->device->name();
    own->set_task(device.substr(0, device.find("/device:")));
  } else if (remote_ != nullptr) {
    own->set_task(remote_->plan().port);
  }
  own->set_begin_nanos(timed_since_);
  own->set_end_nanos(over);
  if (remote_ != nullptr) AddRemoteStatistics(metadata);
} catch (const std::bad_alloc&) {
  LogError("no memory is left for the statistics of a step");
}

}  // namespace troupe
