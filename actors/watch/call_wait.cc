#include "actors/watch/call_wait.h"

#include <algorithm>

#include "actors/step/cancel_later.h"
#include "actors/threads/no_memory.h"

namespace troupe {

SteadyTime TimeAfter(SteadyTime begun, int64_t ms) {
  const auto left = std::chrono::floor<std::chrono::milliseconds>(SteadyTime::max() - std::max(begun, SteadyTime()));
  return ms >= left.count() ? SteadyTime::max() : begun + std::chrono::milliseconds(ms);
}

// Made when the library is loaded: the caller may have no memory left.
static const absl::Status& kCancelled = *new absl::Status(absl::CancelledError("the step was cancelled by its caller"));
absl::Status CancelledByCaller() { return kCancelled; }

CancellationToken::CancellationToken() : impl_(std::make_shared<Impl>()) {}
CancellationToken::~CancellationToken() = default;
bool CancellationToken::cancelled() const {
  std::lock_guard<std::mutex> lock(impl_->mu);
  return impl_->cancelled;
}
void CancellationToken::Cancel() {
  // Without memory for an entry this waits, but not under the lock: calls that end leave the list.
  UntilMemoryAllows([this] {
    const CancelLater later;
    impl_->Cancel();
  });
}
void CancellationToken::Impl::Cancel() {
  std::lock_guard<std::mutex> lock(mu);
  cancelled = true;
  // Under the lock: an entry leaves the list before it goes.
  for (Cancellable* entry : entries) entry->OnCancel();
}

Cancellation::Cancellation(const CancellationToken* token, Cancellable* what)
    : impl_(token != nullptr ? token->impl() : nullptr), what_(what) {
  if (impl_ == nullptr) return;
  std::lock_guard<std::mutex> lock(impl_->mu);
  impl_->entries.push_back(what_);
}

Cancellation::~Cancellation() {
  if (impl_ == nullptr) return;
  std::lock_guard<std::mutex> lock(impl_->mu);
  impl_->entries.erase(std::find(impl_->entries.begin(), impl_->entries.end(), what_));
}

bool Cancellation::cancelled() const {
  if (impl_ == nullptr) return false;
  std::lock_guard<std::mutex> lock(impl_->mu);
  return impl_->cancelled;
}

}  // namespace troupe
