// Tensors that pass between parts: those that have not come yet, and those that wait for their
// receiver. And nodes that wait for their turn to read or update a variable.
#include <algorithm>

#include "actors/executor/async_call.h"
#include "kernels/evaluate.h"
#include "kernels/state/variable_access.h"

namespace troupe {

std::shared_ptr<StepState::PendingWait> StepState::Hold(std::unique_ptr<KernelWait> wait, StepContext* step) {
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
  waiting_.push_back(std::make_unique<Waiting>(Waiting{node, it, dead, input, std::move(pending), Now()}));
  ++in_flight_;
  // Made here, so that who ends the wait need not find memory for it.
  const auto arrival = std::make_shared<std::unique_ptr<Arrival>>(std::make_unique<Arrival>());
  (*arrival)->kind = Arrival::Kind::kWaitOver;
  (*arrival)->step_id = last_step_;
  (*arrival)->call = waiting_.back().get();
  std::lock_guard<std::mutex> lock(p->mu);
  if (p->wait != nullptr) p->wait->Await([this, keep = host_->KeepAlive(), arrival] { PostEnd(arrival->release()); });
}

void StepState::WaitOver(Waiting* over) {
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), [over](const auto& w) { return w.get() == over; });
  if (it == waiting_.end()) return;
  std::unique_ptr<KernelWait> wait = over->pending->Take();
  if (wait == nullptr) return;  // given up: the step ends
  const std::unique_ptr<Waiting> w = std::move(*it);
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

absl::Status StepState::Send(const std::string& key, uint64_t tag, Tensor value, bool dead) {
  // What is dead has no bytes to hold back.
  if (!dead && !part_->granted_sends.empty() && part_->granted_sends.contains(key) && grants_.erase({key, tag}) == 0) {
    const auto [it, is_new] = held_.try_emplace(std::make_pair(key, tag), Held{std::move(value), Now()});
    if (!is_new) return InvalidArgument("another node of the part sends '", key, "'");
    ++in_flight_;
    return absl::OkStatus();
  }
  return host_->SendToPart(key, tag, std::move(value), dead);
}

void StepState::Recv(const std::string& key, uint64_t tag, RecvDone done) {
  if (!active_ || aborting_) return done(absl::CancelledError("the step ended"), Tensor(), false);
  const auto it = mail_.find({key, tag});
  if (it != mail_.end() && it->second.arrived) {
    Mail mail = std::move(it->second);
    mail_.erase(it);
    return done(absl::OkStatus(), std::move(mail.value), mail.dead);
  }
  Mail& mail = mail_[{key, tag}];
  // A value goes to one node: a second one would wait for ever.
  if (mail.waiting) return done(InvalidArgument("another node of the part receives '", key, "'"), Tensor(), false);
  mail.waiting = std::move(done);
  // An asynchronous kernel asks before it returns.
  if (asking_ != nullptr) {
    mail.node = asking_->node;
    mail.iteration = asking_->iteration;
  }
  if (!part_->granted_recvs.empty() && part_->granted_recvs.contains(key)) host_->Grant(key, tag);
}

void StepState::TensorCame(Arrival* a) {
  if (a->outputs[0].valid()) received_bytes_ += static_cast<int64_t>(a->outputs[0].bytes());
  Mail& mail = mail_[{a->key, a->tag}];
  if (mail.waiting) {
    const uint32_t node = mail.node;
    RecvDone done = std::move(mail.waiting);
    mail_.erase({a->key, a->tag});
    try {
      done(absl::OkStatus(), std::move(a->outputs[0]), a->dead);
    } catch (...) {
      Fail(node, KernelException());
    }
    return;
  }
  mail.arrived = true;
  mail.dead = a->dead;
  mail.value = std::move(a->outputs[0]);
}

void StepState::Granted(const Arrival& a) {
  auto held = held_.extract({a.key, a.tag});
  if (!held) {
    grants_.emplace(a.key, a.tag);
    return;
  }
  --in_flight_;
  if (absl::Status s = host_->SendToPart(a.key, a.tag, std::move(held.mapped().value), false); !s.ok()) Abort(s);
}

void StepState::TakeEarlyArrivals() {
  ArrivalList early;
  early.Swap(early_arrivals_);
  while (std::unique_ptr<Arrival> a = early.Pop()) HandleArrival(std::move(a));
}

// The step is aborting: who asks for more is refused at once.
void StepState::CancelReceives() {
  const auto mail = std::exchange(mail_, {});
  for (const auto& [key, m] : mail) {
    if (!m.waiting) continue;
    try {
      m.waiting(absl::CancelledError("the step ended"), Tensor(), false);
    } catch (...) {
      // The step has its error. What the kernel threw away with its `done` answers by itself.
    }
  }
}

void StepState::Rest() {
  if (nodes_run() == rested_at_) return;
  rested_at_ = nodes_run();
  resting_since_ = Now();
}

}  // namespace troupe
