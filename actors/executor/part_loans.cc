// Constants and arguments, and what hands them on, are loaned to their consumers: no step counts a
// reference of theirs.
#include <algorithm>

#include "actors/executor/part_compiler.h"

namespace troupe {

void PartCompiler::FindLoans() {
  constexpr uint32_t kUnknown = kNobody - 1;
  owner_.assign(order_.size(), kUnknown);
  std::vector<uint32_t> chain;
  for (uint32_t i = 0; i < order_.size(); ++i) {
    chain.clear();
    uint32_t at = i, owner = kNobody;
    for (;;) {
      if (owner_[at] != kUnknown) {
        owner = owner_[at];
        break;
      }
      chain.push_back(at);
      const CompiledNode& n = part_->nodes[at];
      if (n.handling == Handling::kConstant || n.handling == Handling::kArgument) {
        if (!IsRef(order_[at]->output_type(0)))
          owner = n.handling == Handling::kConstant ? n.index : n.index | kLoanedArgument;
        break;
      }
      if (n.handling != Handling::kForward || n.flow != ControlFlow::kNone || order_[at]->input_edge(0) == nullptr ||
          IsRef(order_[at]->input(0).dtype())) {
        break;
      }
      at = number_[order_[at]->input(0).node->id()];
    }
    for (const uint32_t node : chain) {
      owner_[node] = owner;
      part_->nodes[node].loans = owner != kNobody;
    }
  }
}

bool PartCompiler::TakesLoaned(const CompiledNode& n, int input) {
  return input < kMaxLoanedInputs && n.flow == ControlFlow::kNone && !n.dead_aware &&
         (n.handling == Handling::kKernel || n.handling == Handling::kForward || n.handling == Handling::kResult ||
          n.handling == Handling::kAsyncKernel);
}

bool PartCompiler::LoanTo(size_t i, const Edge& e) {
  const uint32_t dst = number_[e.dst->id()];
  const uint32_t slot = part_->nodes[dst].first_slot + static_cast<uint32_t>(e.dst_input);
  part_->owners.resize(part_->num_slots);
  part_->owners[slot] = owner_[i];
  part_->nodes[dst].loaned |= 1u << e.dst_input;
  if ((owner_[i] & kLoanedArgument) != 0) {
    loaned_arguments_.insert(owner_[i] & ~kLoanedArgument);
    return false;
  }
  part_->nodes[dst].pinned |= 1u << e.dst_input;
  part_->frames[frame_of_[e.dst->id()]].pinned.emplace_back(slot, owner_[i]);
  part_->controls.push_back(dst);
  return true;
}

void PartCompiler::LeaveOutConstants() {
  CompiledPart& p = *part_;
  left_out_.assign(p.nodes.size(), false);
  for (uint32_t i = 0; i < p.nodes.size(); ++i) {
    CompiledNode& n = p.nodes[i];
    if (n.handling != Handling::kConstant || n.first_edge != n.last_edge) continue;
    // Its value is where it is needed; what is left of it is when.
    n.handling = Handling::kNothing;
    n.unused_outputs = n.loans = false;
    bool all = i < p.frames[0].num_nodes && p.counts[i] == 0;
    for (uint32_t e = n.first_control; e < n.last_control; ++e) all &= p.controls[e] < p.frames[0].num_nodes;
    if (!all) continue;
    left_out_[i] = true;
    for (uint32_t e = n.first_control; e < n.last_control; ++e) --p.counts[p.controls[e]];
  }
  p.loaned_arguments.assign(loaned_arguments_.begin(), loaned_arguments_.end());
  std::sort(p.loaned_arguments.begin(), p.loaned_arguments.end());
}

}  // namespace troupe
