// Nodes that wait: for their turn to read or update a variable, say, or for the files of their
// inputs.
#include <algorithm>

#include "actors/executor/async_call.h"
#include "actors/executor/node_dump.h"
#include "actors/executor/run_rows.h"
#include "kernels/run_kernel.h"
#include "kernels/state/variable_access.h"

namespace troupe {

std::shared_ptr<PendingWait> StepState::Hold(std::unique_ptr<KernelWait> wait, StepContext* step) {
  auto pending = std::make_shared<PendingWait>();
  pending->wait = std::move(wait);
  pending->id = step->cancellations.Register([pending] { pending->Take().reset(); });
  if (pending->id == 0) pending->Take().reset();
  return pending;
}

// What a wait is given to go on: a call posts the arrival, the first one only. If it is dropped
// uncalled, the arrival is an error, unless the wait was given up.
class StepState::GoOn {
 public:
  // The arrival is made here, so that who ends the wait need not find memory for it.
  GoOn(StepState* state, WaitingNode* waiting)
      : state_(state),
        keep_(state->host_->KeepAlive()),
        pending_(waiting->pending),
        arrival_(new Arrival(wait_end{state->last_step_, waiting, absl::OkStatus()})) {}
  ~GoOn() {
    std::unique_ptr<Arrival> left(arrival_.exchange(nullptr));
    if (left == nullptr || pending_->taken.load()) return;
    std::get<wait_end>(left->message).status = kDropped;
    state_->PostEnd(left.release());
  }
  void Call() {
    if (Arrival* const a = arrival_.exchange(nullptr)) state_->PostEnd(a);
  }

 private:
  // Made when the library is loaded, since memory may be lacking when it is needed.
  static const absl::Status& kDropped;
  StepState* const state_;
  const std::shared_ptr<void> keep_;
  const std::shared_ptr<PendingWait> pending_;
  std::atomic<Arrival*> arrival_;
};
const absl::Status& StepState::GoOn::kDropped =
    *new absl::Status(Internal("what the kernel waits for forgot it: it dropped `go_on` without calling it"));

// The node's inputs stay in their slots. Whoever ends the wait posts an arrival; if the step is
// told to end before, its Abort is what comes.
void StepState::WaitFor(uint32_t node, Iteration* it, bool dead, int input, std::shared_ptr<PendingWait> pending) {
  PendingWait* const p = pending.get();
  waiting_.push_back(WaitingNode{node, it, dead, input, std::move(pending), Now(), {}});
  waiting_.back().self = std::prev(waiting_.end());
  ++in_flight_;
  auto go_on = std::make_shared<GoOn>(this, &waiting_.back());
  std::lock_guard<std::mutex> lock(p->mu);
  if (p->wait != nullptr) p->wait->Await([go_on = std::move(go_on)] { go_on->Call(); });
}

void StepState::Handle(wait_end& m) {
  if (aborting_) return;
  WaitingNode* const over = m.waiting;
  std::unique_ptr<KernelWait> wait = over->pending->Take();
  if (wait == nullptr) return;  // given up: the step ends
  const WaitingNode w = *over;
  waiting_.erase(over->self);
  --in_flight_;
  input_.context->cancellations.Deregister(w.pending->id);
  if (input_.timings != nullptr) input_.timings->push_back({w.node, rows::kAsynchronous, w.since, Now()});
  if (!m.status.ok()) return Fail(w.node, m.status);
  if (input_.numerics != nullptr) [[unlikely]] {
    if (const auto* const dump = dynamic_cast<const DumpWait*>(wait.get())) return Fail(w.node, dump->result());
  }
  const ComputeThreads::LoopCancellation loops(&input_.context->cancelled);
  if (w.input < 0) {
    kernel_context_.set_wait(std::move(wait));
  } else {
    absl::StatusOr<Tensor> value = static_cast<state::SnapshotWait&>(*wait).Take();
    // Before the reference goes, which may be the last share of the variable.
    wait.reset();
    if (!value.ok()) return Fail(w.node, value.status());
    w.iteration->slots[nodes_[w.node].first_slot + static_cast<uint32_t>(w.input)] = *std::move(value);
  }
  if (part_->has_control_flow) {
    RunAfterWait<true>(w.node, w.iteration, w.dead);
  } else {
    RunAfterWait<false>(w.node, w.iteration, w.dead);
  }
}

// On return no other thread has the wait. One that has just ended it may still post its arrival,
// which comes too late and is dropped.
void StepState::GiveUp(PendingWait& pending) {
  pending.Take().reset();
  input_.context->cancellations.Deregister(pending.id);
}

void StepState::GiveUpWaits() {
  for (const WaitingNode& w : std::exchange(waiting_, {})) GiveUp(*w.pending);
}

void StepState::Rest() {
  if (nodes_run() == rested_at_) return;
  rested_at_ = nodes_run();
  resting_since_ = Now();
}

}  // namespace troupe
