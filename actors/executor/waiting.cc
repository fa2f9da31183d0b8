// What a step waits for: tensors of other parts that have not come yet, and the report that names every missing input.
#include "troupe/actors/executor/async_call.h"

namespace troupe {

absl::Status StepState::Send(const std::string& key, uint64_t tag, Tensor value, bool dead) {
  // What is dead has no bytes to hold back.
  if (!dead && !part_->granted_sends.empty() && part_->granted_sends.contains(key) && grants_.erase({key, tag}) == 0) {
    const auto [it, is_new] = held_.try_emplace(std::make_pair(key, tag), std::move(value));
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
  if (absl::Status s = host_->SendToPart(a.key, a.tag, std::move(held.mapped()), false); !s.ok()) Abort(s);
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

std::vector<std::string> StepState::Waiting(size_t limit) const {
  std::vector<std::string> lines;
  if (!active_) return lines;
  for (const AsyncCall* c : calls_) {
    if (lines.size() >= limit) return lines;
    const KernelNode& n = part_->info[c->node];
    lines.push_back(
        StrCat("node '", n.name, "' (", n.op, ") on ", n.device->name(), " is running or waiting for a tensor"));
  }
  for (const auto& [key, value] : held_) {
    if (lines.size() >= limit) return lines;
    lines.push_back(StrCat("the value of '", key.first, "' waits until its receiver asks for it"));
  }
  const StaticFrame& f = part_->frames[0];
  for (uint32_t i = 0; i < f.num_nodes && lines.size() < limit; ++i) {
    const CompiledNode& n = part_->nodes[i];
    if (n.flow == ControlFlow::kMerge || root_.counts[i] == part_->counts[i] || (root_.counts[i] & ~kDeadInput) == 0)
      continue;
    std::string missing;
    for (int k = 0; k < n.num_inputs; ++k) {
      if (root_.slots[n.first_slot + k].valid()) continue;
      const auto [producer, output] = part_->producers[n.first_slot + k];
      StrAppend(&missing, missing.empty() ? "" : ", ", "input ", k, " from '", part_->info[producer].name, ":", output,
                "'");
    }
    lines.push_back(StrCat("node '", part_->info[i].name, "' (", part_->info[i].op, ") misses ",
                           missing.empty() ? StrCat(root_.counts[i] & ~kDeadInput, " control inputs") : missing));
  }
  return lines;
}

}  // namespace troupe
