// What ends a step of a set before all of its nodes have run: an error in a part, a deadline, a
// token, Close, the death of an actor.
//
// Whatever it is, it keeps the first error, sets the flag that kernels and executors look at, sends
// abort_step to the parts, and calls the step's cancellation list, the latter without a lock of the
// library (cancel_later.h). Two answers are possible from then on, and the one that comes first
// takes `owed_` and is the only one: the step's own, when its last part is done, or the watch's,
// 50 ms later. None of this needs memory, except for the text of the watch's answer.
#include <algorithm>

#include "actors/signature/signature.h"
#include "actors/step/cancel_later.h"
#include "actors/step/executor_set.h"
#include "actors/threads/no_memory.h"

namespace troupe {
namespace {

// Made when the library is loaded, since memory may be lacking when it is needed.
const absl::Status& kAnotherPartFailed = *new absl::Status(Cancelled("another part of the step failed"));

}  // namespace

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

void ExecutorSet::FailBegin(const absl::Status& status) {
  context_->cancelled.store(true, std::memory_order_relaxed);
  SetError(status);
}

void ExecutorSet::PartFails(uint32_t part, const absl::Status& status) {
  if (!SetError(status)) return;
  step_->PartFailed(part, status);
  context_->cancelled.store(true, std::memory_order_relaxed);
  transport_->AbortParts(part, context_->step_id, kAnotherPartFailed);
  context_->Cancel();
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
  // A part that has not begun yet keeps the message until it does. Where there was no memory for a
  // message, the part sees the flag before its next node.
  transport_->AbortParts(LocalTransport::kAll, step_id, status);
  CancelLater::Cancel(std::move(context));
}

void ExecutorSet::Abort(int64_t step_id, const absl::Status& status) {
  Stop(step_id, status);
  if (signature_->watch != nullptr) signature_->watch->Stopped(this, step_id);
}

// A token leaves the step before it is over.
void ExecutorSet::OnCancel() { Abort(step_id(), CancelledByCaller()); }

void ExecutorSet::Guard(const CancellationToken* token, const Deadline& deadline) noexcept {
  if (empty()) return;  // over before anybody could
  try {
    if (token != nullptr) {
      cancellation_.emplace(token, this);
      if (cancellation_->cancelled()) FailBegin(CancelledByCaller());
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
    FailBegin(kNoMemory);
  }
}

void ExecutorSet::EndGuard() {
  cancellation_.reset();
  if (std::exchange(watched_, false)) signature_->watch->Remove(this);
}

// The watch that answers early does so under its lock, which Remove waits for.
bool ExecutorSet::TakeAnswer() {
  cancellation_.reset();
  int64_t owed = step_id();
  const bool answers = owed_.compare_exchange_strong(owed, 0);
  if ((!answers || watched_ || failed_.load()) && signature_->watch != nullptr) signature_->watch->Remove(this);
  watched_ = false;
  return answers;
}

bool ExecutorSet::AnswerEarly(int64_t step_id, const std::vector<std::string>& lines, EarlyAnswer* answer) {
  if (!owed_.compare_exchange_strong(step_id, 0)) return false;
  std::unique_lock<std::mutex> lock(mu_);
  // First: whoever has no memory for the rest of this still answers with the error.
  answer->status = status_;
  lock.unlock();
  step_->GiveAnswer(answer);
  lock.lock();
  // Other steps go on meanwhile, also where this one has every thread in a turn or job.
  if (signature_->turns != nullptr) {
    std::vector<const void*> owners{context_.get()};
    for (const auto& e : executors_) owners.push_back(e->resumable());
    transport_->AddContexts(&owners);
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

}  // namespace troupe
