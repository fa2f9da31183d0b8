#include "actors/threads/turn_threads.h"

#include <caf/all.hpp>

#include "actors/threads/actor_thread.h"
#include "actors/threads/no_memory.h"

namespace troupe {

absl::Status TurnThreads::Start() {
  if (threads_->StartTurns()) return absl::OkStatus();
  return ResourceExhausted("the system has no thread left for asynchronous steps");
}

void TurnThreads::exec_later(caf::resumable* actor) {
  // The actor has its message already, and nobody else would resume it.
  UntilMemoryAllows([&] { TryExecLater(actor); });
}

void TurnThreads::Resume(caf::resumable* actor) {
  // As many messages as the scheduler would let it take (runtime/runtime.cc).
  constexpr size_t kThroughput = 50;
  const ComputeThreads::LoopOwner owner(actor);
  switch (actor->resume(this, kThroughput)) {
    case caf::resumable::resume_later:
      return exec_later(actor);
    case caf::resumable::awaiting_message:
    case caf::resumable::done:
      return caf::intrusive_ptr_release(actor);
    case caf::resumable::shutdown_execution_unit:
      return;
  }
}

}  // namespace troupe
