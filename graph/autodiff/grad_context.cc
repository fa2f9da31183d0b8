#include "graph/autodiff/grad_context.h"

#include <algorithm>

#include "graph/core/hash_map.h"

namespace troupe::autodiff {

NodeOut GradContext::Grad(int i) {
  if (!out_grads_[i].valid()) out_grads_[i] = Op("ZerosLike", {Output(i)});
  return out_grads_[i];
}

NodeOut GradContext::Op(std::string_view op, std::vector<GradArg> inputs, AttrMap attrs) {
  if (!status_.ok()) return {};
  const OpDef* def = b_.graph_->ops().Find(op);
  for (size_t a = 0; a < inputs.size(); ++a) {
    for (NodeOut o : inputs[a].outs) {
      if (o.valid()) continue;
      Fail(InvalidArgument("arg ", a, " of ", op, " has no value"));
      return {};
    }
    // A list of one element reads like a single value.
    if (def != nullptr && a < def->inputs.size() && def->inputs[a].IsList()) inputs[a].list = true;
  }
  std::vector<Node*> controls;
  for (Node* c : controls_) {
    if (b_.forward_.FrameOf(c) == target_) controls.push_back(c);
  }
  const NodeOut out = b_.AddNode(StrCat(node_->name(), "_grad/", op), op, inputs, std::move(attrs), controls, node_);
  if (!out.valid()) {
    Fail(b_.status_);
    return {};
  }
  b_.forward_.Place(out.node, target_);
  created_.push_back(out.node);
  return out;
}

void GradContext::Finish(const std::vector<bool>& needed) {
  for (int i = 0; i < num_inputs(); ++i) {
    if (!needed[i]) grads_[i] = {};
  }
  Prune();
  for (Node* n : created_) {
    if (b_.ok()) Settle(n);
  }
  for (NodeOut& g : grads_) {
    if (g.valid() && IsForward(g)) g = b_.Value(g, target_);
  }
}

void GradContext::Prune() {
  HashSet<const Node*> used;
  for (NodeOut g : grads_) {
    if (g.valid()) used.insert(g.node);
  }
  // Nodes were created after their inputs.
  std::vector<Node*> kept;
  for (auto it = created_.rbegin(); it != created_.rend(); ++it) {
    Node* n = *it;
    if (!used.contains(n)) {
      b_.graph_->RemoveNode(n);
      continue;
    }
    for (const Edge* e : n->in_edges()) used.insert(e->src);
    kept.push_back(n);
  }
  created_.assign(kept.rbegin(), kept.rend());
}

// `n`'s consumers take `by` instead, and n goes.
void GradContext::Replace(Node* n, NodeOut by) {
  if (!b_.ok()) return;
  const EdgeList edges = n->out_edges();
  for (Edge* e : edges) {
    if (e->IsControl()) continue;
    Node* dst = e->dst;
    const int input = e->dst_input;
    if (absl::Status s = b_.graph_->UpdateEdge(by, dst, input); !s.ok()) b_.Fail(s);
  }
  for (NodeOut& g : grads_) {
    if (g.valid() && g.node == n) g = by;
  }
  b_.graph_->RemoveNode(n);
}

void GradContext::Settle(Node* n) {
  if (target_->reverses == nullptr) {
    b_.Gate(n, target_);
    return;
  }
  bool all_forward = n->num_inputs() > 0, any_forward = false;
  for (int i = 0; i < n->num_inputs(); ++i) {
    const bool forward = IsForward(n->input(i));
    any_forward |= forward;
    all_forward &= forward && !b_.IsInvariant(n->input(i));
  }
  if (!any_forward) {
    b_.Gate(n, target_);
    return;
  }
  const OpDef& op = n->op();
  if (op.Has(OpTrait::kZeros)) {
    const NodeOut of = n->input(0);
    Replace(n, b_.Zeros(of, target_, BaseType(of.dtype())));
    return;
  }
  if (all_forward && op.Has(OpTrait::kReadsOnlyShape)) {
    if (op.Has(OpTrait::kShape) && n->num_outputs() == 1) {
      const PartialTensorShape known = b_.forward_.Shape(n->input(0));
      const DType type = n->output_type(0);
      if (known.IsFullyDefined()) {
        Tensor value(type, TensorShape({known.rank()}));
        for (int i = 0; i < known.rank(); ++i) {
          if (type == DType::kInt64) {
            value.data<int64_t>()[i] = known.dim(i);
          } else {
            value.data<int32_t>()[i] = static_cast<int32_t>(known.dim(i));
          }
        }
        Replace(
            n, b_.Add(target_, StrCat(node_->name(), "_grad/Shape"), "Const", {}, {{"dtype", type}, {"value", value}}));
        return;
      }
    }
    // Only data edges may stay: a control edge would come from the backward loop.
    int guard = 0;
    for (int i = 0; i < n->num_inputs(); ++i) guard = std::max(guard, b_.forward_.GuardOf(n->input(i)));
    const EdgeList edges = n->in_edges();
    for (Edge* e : edges) {
      if (e->IsControl()) b_.graph_->RemoveEdge(e);
    }
    b_.forward_.Place(n, target_->reverses, n->num_inputs() > 1 ? b_.forward_.GuardOf(node_) : guard);
    return;
  }
  for (int i = 0; i < n->num_inputs(); ++i) {
    if (!IsForward(n->input(i))) continue;
    const NodeOut saved = b_.Value(n->input(i), target_);
    if (!b_.ok()) return;
    if (absl::Status s = b_.graph_->UpdateEdge(saved, n, i); !s.ok()) b_.Fail(s);
  }
  b_.Gate(n, target_);
}

}  // namespace troupe::autodiff
