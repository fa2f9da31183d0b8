// Nodes that wait for their turn to read or update a variable.
#include <algorithm>

#include "actors/executor/async_call.h"
#include "kernels/evaluate.h"
#include "kernels/state/variable_access.h"

namespace troupe {

std::shared_ptr<PendingWait> StepState::Hold(std::unique_ptr<KernelWait> wait, StepContext* step) {
  auto pending = std::make_shared<PendingWait>();
  pending->wait = std::move(wait);
  pending->id = step->cancellations.Register([pending] { pending->Take().reset(); });
  if (pending->id == 0) pending->Take().reset();
  return pending;
}

// The node's inputs stay in their slots. Whoever ends the wait posts an arrival; if the step is
// told to end before, its Abort is what comes.
void StepState::WaitFor(uint32_t node, Iteration* it, bool dead, int input, std::shared_ptr<PendingWait> pending) {
  PendingWait* const p = pending.get();
  waiting_.push_back(std::make_unique<WaitingNode>(WaitingNode{node, it, dead, input, std::move(pending), NowNanos()}));
  ++in_flight_;
  // Made here, so that who ends the wait need not find memory for it.
  const auto arrival = std::make_shared<std::unique_ptr<Arrival>>(
      std::make_unique<Arrival>(wait_end{last_step_, waiting_.back().get()}));
  std::lock_guard<std::mutex> lock(p->mu);
  if (p->wait != nullptr) p->wait->Await([this, keep = host_->KeepAlive(), arrival] { PostEnd(arrival->release()); });
}

void StepState::Handle(wait_end& m) {
  if (aborting_) return;
  WaitingNode* const over = m.waiting;
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), [over](const auto& w) { return w.get() == over; });
  if (it == waiting_.end()) return;
  std::unique_ptr<KernelWait> wait = over->pending->Take();
  if (wait == nullptr) return;  // given up: the step ends
  const std::unique_ptr<WaitingNode> w = std::move(*it);
  waiting_.erase(it);
  --in_flight_;
  input_.context->cancellations.Deregister(w->pending->id);
  const ComputeThreads::LoopCancellation loops(&input_.context->cancelled);
  if (w->input < 0) {
    kernel_context_.set_wait(std::move(wait));
  } else {
    absl::StatusOr<Tensor> value = static_cast<state::SnapshotWait&>(*wait).Take();
    if (!value.ok()) return Fail(w->node, value.status());
    w->iteration->slots[nodes_[w->node].first_slot + static_cast<uint32_t>(w->input)] = *std::move(value);
  }
  if (part_->has_control_flow) {
    RunAfterWait<true>(w->node, w->iteration, w->dead);
  } else {
    RunAfterWait<false>(w->node, w->iteration, w->dead);
  }
}

// On return no other thread is at it, either.
void StepState::GiveUp(PendingWait& pending) {
  pending.Take().reset();
  input_.context->cancellations.Deregister(pending.id);
}

void StepState::GiveUpWaits() {
  for (const auto& w : std::exchange(waiting_, {})) GiveUp(*w->pending);
}

void StepState::Rest() {
  if (nodes_run() == rested_at_) return;
  rested_at_ = nodes_run();
  resting_since_ = NowNanos();
}

}  // namespace troupe
