// Which nodes of a step hold memory: the values that lie in the slots of all iterations, results,
// tensors of other parts, and what the step's resources (tensor arrays, stacks) keep.
#include "actors/executor/memory_tally.h"
#include "actors/executor/step_state.h"

namespace troupe {

// The node that made the value that `node` hands out: what only hands on is passed over.
uint32_t StepState::MakerOf(uint32_t node) const {
  constexpr int kMostSteps = 16;  // in a loop the way may lead back
  uint32_t at = node;
  for (int i = 0; i < kMostSteps; ++i) {
    const CompiledNode& n = nodes_[at];
    const bool flows = n.flow != ControlFlow::kNone && n.flow != kInTurn && n.handling != Handling::kConstant;
    if ((!flows && n.handling != Handling::kForward) || n.num_inputs == 0) return at;
    // Of a loop's Merge the value comes from the iteration before, mostly.
    at = part_->producers[n.first_slot + (n.flow == ControlFlow::kMerge ? n.num_inputs - 1 : 0)].first;
  }
  return node;
}

std::string StepState::HolderName(uint32_t node) const {
  const KernelNode& n = part_->info[MakerOf(node)];
  return StrCat("node '", n.name, "' (", n.op, ")");
}

void StepState::AddHolders(const Iteration& it, MemoryTally* tally) const {
  const StaticFrame& f = part_->frames[it.frame->id];
  for (uint32_t s = f.first_slot; s < f.first_slot + f.num_slots; ++s) {
    tally->Add(it.slots[s], [&] { return HolderName(part_->producers[s].first); });
  }
  for (const Frame* child = it.children; child != nullptr; child = child->sibling) {
    for (const Iteration* inner : child->iterations) {
      if (inner != nullptr) AddHolders(*inner, tally);
    }
    for (const std::vector<Frame::Value>* values : {&child->deferred, &child->invariants}) {
      for (const Frame::Value& v : *values) tally->Add(v.value, [&] { return HolderName(v.node); });
    }
  }
}

void StepState::AddHolders(MemoryTally* tally) const {
  if (!active_) return;
  const EdgeTable& edges = host_->edges();
  tally->AddResources(input_.context->resources);
  AddHolders(root_, tally);
  for (uint32_t i = 0; i < part_->nodes.size(); ++i) {
    const CompiledNode& n = nodes_[i];
    if (n.handling != Handling::kResult) continue;
    tally->Add(input_.results[n.index], [&] { return HolderName(part_->producers[n.first_slot].first); });
  }
  mailroom_.ForEachMail([&](const Mailroom::Place& place, const Mailroom::Mail& mail) {
    tally->Add(mail.value, [&] { return StrCat("received '", edges[place.edge].name, "'"); });
  });
  mailroom_.ForEachHeld([&](const Mailroom::Place& place, const Mailroom::Held& held) {
    tally->Add(held.value, [&] { return StrCat("not sent yet: '", edges[place.edge].name, "'"); });
  });
}

// The error of a node that found no memory, with who holds it; any other as it is. The node's
// outputs, as far as it had made them, count as its own.
absl::Status StepState::WithMemoryHolders(uint32_t node, const absl::Status& status) const {
  const auto says = [&](absl::string_view what) { return status.message().find(what) != absl::string_view::npos; };
  if (!absl::IsResourceExhausted(status) || (!says("memory") && !says("bad_alloc"))) return status;
  try {
    MemoryTally tally(*part_->device);
    tally.AddResources(*part_->device->containers());
    AddHolders(&tally);
    for (const Tensor& t : out_) tally.Add(t, [&] { return HolderName(node); });
    return WithHolders(status, tally);
  } catch (...) {
    return status;
  }
}

std::vector<MemoryHolder> StepState::Holders() const {
  MemoryTally tally(*part_->device);
  tally.IgnoreResources(*part_->device->containers());
  AddHolders(&tally);
  return tally.Largest();
}

}  // namespace troupe
