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

// What a wait is given to go on: a call posts the arrival, the first one only. If it is dropped
// uncalled, the arrival is an error, unless the wait was given up.
class StepState::GoOn {
 public:
  GoOn(StepState* state, Waiting* waiting)
      : state_(state), keep_(state->host_->KeepAlive()), pending_(waiting->pending), arrival_(new Arrival) {
    // Made here, so that who ends the wait need not find memory for it.
    Arrival* const a = arrival_.load();
    a->kind = Arrival::Kind::kWaitOver;
    a->step_id = state->last_step_;
    a->call = waiting;
  }
  ~GoOn() {
    std::unique_ptr<Arrival> left(arrival_.exchange(nullptr));
    if (left == nullptr || pending_->taken.load()) return;
    left->status = kDropped;
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
  waiting_.push_back(Waiting{node, it, dead, input, std::move(pending), NowNanos(), {}});
  waiting_.back().self = std::prev(waiting_.end());
  ++in_flight_;
  auto go_on = std::make_shared<GoOn>(this, &waiting_.back());
  std::lock_guard<std::mutex> lock(p->mu);
  if (p->wait != nullptr) p->wait->Await([go_on = std::move(go_on)] { go_on->Call(); });
}

void StepState::WaitOver(const Arrival& a) {
  auto* const over = static_cast<Waiting*>(a.call);
  std::unique_ptr<KernelWait> wait = over->pending->Take();
  if (wait == nullptr) return;  // given up: the step ends
  const Waiting w = *over;
  waiting_.erase(over->self);
  --in_flight_;
  input_.context->cancellations.Deregister(w.pending->id);
  if (!a.status.ok()) return Fail(w.node, a.status);
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

// On return no other thread is at it, either.
void StepState::GiveUp(PendingWait& pending) {
  pending.Take().reset();
  input_.context->cancellations.Deregister(pending.id);
}

void StepState::GiveUpWaits() {
  for (const Waiting& w : std::exchange(waiting_, {})) GiveUp(*w.pending);
}

absl::Status StepState::Send(const std::string& key, uint64_t tag, Tensor value, bool dead) {
  // What is dead has no bytes to hold back.
  if (!dead && !part_->granted_sends.empty() && part_->granted_sends.contains(key) && grants_.erase({key, tag}) == 0) {
    const auto [it, is_new] = held_.try_emplace(std::make_pair(key, tag), Held{std::move(value), NowNanos()});
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
  resting_since_ = NowNanos();
}

}  // namespace troupe
