// Static shapes inside loops.
//
// Shape inference leaves a loop variable's shape open, since it cannot look through the back edge.
// Here each variable is assumed to keep the shape it enters with; the shapes that come back around
// are compared, what differs is given up, and the inference is repeated until nothing changes: what
// is left holds in every iteration, by induction. Known shapes save the gradient from pushing
// shapes on stacks.
#include "graph/autodiff/forward_graph.h"
#include "graph/core/hash_map.h"

namespace troupe::autodiff {
namespace {

// What both describe: dimensions that differ or are unknown in one become unknown.
PartialTensorShape Generalize(const PartialTensorShape& a, const PartialTensorShape& b) {
  if (!a.known_rank() || a.rank() != b.rank()) return {};
  PartialTensorShape s = a;
  for (int i = 0; i < s.rank(); ++i) {
    if (a.dim(i) != b.dim(i)) s.set_dim(i, -1);
  }
  return s;
}

}  // namespace

void ForwardGraph::InferShapes() {
  HashMap<const Node*, PartialTensorShape> limit;  // by the variable's Merge
  for (;;) {
    shapes_ = std::make_unique<ShapeRefiner>(graph_);
    HashMap<const Node*, PartialTensorShape> assumed;
    for (const Node* n : order_) {
      // Refused shapes are reported when the graph is run; here they only mean that nothing is
      // known.
      if (!shapes_->AddNode(n).ok()) continue;
      const LoopVar* var = n->IsMerge() ? VarOf(n) : nullptr;
      if (var == nullptr || var->enter == nullptr) continue;
      PartialTensorShape s = shapes_->shape({var->enter, 0});
      if (const auto it = limit.find(n); it != limit.end()) s = Generalize(s, it->second);
      if (shapes_->SetShape({var->merge, 0}, s).ok()) assumed[n] = s;
    }
    bool changed = false;
    for (const auto& [merge, shape] : assumed) {
      const NodeOut back = VarOf(merge)->next->input(0);
      const PartialTensorShape after = Generalize(shape, back.valid() ? shapes_->shape(back) : PartialTensorShape());
      if (after == shape) continue;
      limit[merge] = after;
      changed = true;
    }
    if (!changed) return;
  }
}

}  // namespace troupe::autodiff
