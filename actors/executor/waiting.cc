// Tensors that pass between parts: those that have not come yet, and those that wait for their receiver.
#include "troupe/actors/executor/async_call.h"

namespace troupe {

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
  if (!calls_.empty()) {
    mail.node = calls_.back()->node;
    mail.iteration = calls_.back()->iteration;
  }
  if (!part_->granted_recvs.empty() && part_->granted_recvs.contains(key)) host_->Grant(key, tag);
}

void StepState::TensorCame(Arrival* a) {
  if (a->outputs[0].valid()) received_bytes_ += static_cast<int64_t>(a->outputs[0].bytes());
  Mail& mail = mail_[{a->key, a->tag}];
  if (mail.waiting) {
    RecvDone done = std::move(mail.waiting);
    mail_.erase({a->key, a->tag});
    return done(absl::OkStatus(), std::move(a->outputs[0]), a->dead);
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
  std::vector<std::unique_ptr<Arrival>> early;
  early.swap(early_arrivals_);
  for (auto& a : early) HandleArrival(std::move(a));
}

void StepState::CancelReceives() {
  std::vector<RecvDone> waiting;
  for (auto& [key, mail] : mail_) {
    if (mail.waiting) waiting.push_back(std::move(mail.waiting));
  }
  mail_.clear();
  for (RecvDone& done : waiting) done(absl::CancelledError("the step ended"), Tensor(), false);
}

void StepState::Rest() {
  if (nodes_run() == rested_at_) return;
  rested_at_ = nodes_run();
  resting_since_ = NowNanos();
}

}  // namespace troupe
