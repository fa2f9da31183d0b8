#include "actors/step/cancel_later.h"

#include <new>
#include <utility>

#include "actors/threads/aside.h"

namespace troupe {
namespace {

thread_local CancelLater* outermost = nullptr;

}  // namespace

CancelLater::CancelLater() : outermost_(outermost == nullptr) {
  if (outermost_) outermost = this;
}

CancelLater::~CancelLater() {
  if (!outermost_) return;
  outermost = nullptr;
  Flush();
}

void CancelLater::Cancel(std::shared_ptr<StepContext> context) noexcept {
  if (outermost != nullptr) {
    try {
      outermost->contexts_.push_back(context);
      return;
    } catch (const std::bad_alloc&) {
    }
  }
  context->Cancel();
}

void CancelLater::Flush() noexcept {
  if (!outermost_) return;
  // What is called may leave others here.
  while (!contexts_.empty()) {
    for (const auto& context : std::exchange(contexts_, {})) context->Cancel();
  }
}

void CancelLater::FlushAside(bool aside) noexcept {
  if (!outermost_ || contexts_.empty()) return;
  if (!aside) return Flush();
  try {
    // Told twice, a context calls its list once; so it stays here until it is sure to be told.
    RunAside(true, [contexts = std::make_shared<Contexts>(contexts_)] {
      for (const auto& context : *contexts) context->Cancel();
    });
    contexts_.clear();
  } catch (const std::bad_alloc&) {
    Flush();
  }
}

}  // namespace troupe
