// Gradients that are slices (troupe/indexed_slices.h) stay slices: where several meet, at the sides
// of conditionals, and at the constants of loops.
//
// Where a gradient must be completed (a table whose rows are read in one branch, or in no iteration
// of a loop at all), slices without rows take the place of zeros. Their shape must be known for
// that; a table of unknown shape has a dense gradient there.
#include "graph/autodiff/backprop.h"
#include "graph/core/hash_map.h"

namespace troupe::autodiff {

std::optional<TensorShape> Backprop::KnownShape(NodeOut v) const {
  const HandleInfo* handle = BaseType(v.dtype()) == DType::kResource ? forward_.Handle(v) : nullptr;
  if (BaseType(v.dtype()) == DType::kResource && handle == nullptr) return std::nullopt;
  const PartialTensorShape shape = handle != nullptr ? handle->shape : forward_.Shape(v);
  if (!shape.IsFullyDefined() || shape.rank() < 1) return std::nullopt;
  return TensorShape(shape.dims());
}

NodeOut Backprop::AddSlices(LoopFrame* target, NodeOut values, NodeOut indices, NodeOut rows) {
  return Add(target, "slices/sum", "UnsortedSegmentSum", {values, indices, rows}, {{kSlicesAttr, true}});
}

NodeOut Backprop::AddSlices(LoopFrame* target, NodeOut values, NodeOut indices, const TensorShape& shape) {
  const NodeOut rows = Add(target, "slices/rows", "Const", {},
                           {{"dtype", DType::kInt64}, {"value", Tensor::Scalar<int64_t>(shape.dim(0))}});
  return AddSlices(target, values, indices, rows);
}

Backprop::Slices Backprop::NoSlices(LoopFrame* target, DType dtype, DType index, TensorShape shape) {
  shape.set_dim(0, 0);
  return {
      Add(target, "slices/no_values", "Const", {}, {{"dtype", dtype}, {"value", Tensor(dtype, shape)}}),
      Add(target, "slices/no_indices", "Const", {}, {{"dtype", index}, {"value", Tensor(index, TensorShape({0}))}})};
}

NodeOut Backprop::Concat(LoopFrame* target, std::vector<NodeOut> parts) {
  return Add(target, "slices/concat", "ConcatV2",
             {GradArg(std::move(parts)), GradArg(ConstInt32(target, "slices/axis", 0))});
}

void Backprop::SameIndexType(std::vector<NodeOut>* indices, LoopFrame* target) {
  const auto type = [](NodeOut v) { return BaseType(v.dtype()); };
  bool same = true;
  for (NodeOut i : *indices) same &= type(i) == type(indices->front());
  if (same) return;
  for (NodeOut& i : *indices) {
    if (type(i) != DType::kInt64) i = Add(target, "slices/cast", "Cast", {i}, {{"DstT", DType::kInt64}});
  }
}

NodeOut Backprop::Total(std::vector<NodeOut> parts, LoopFrame* target) {
  if (!ok() || parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  if (std::all_of(parts.begin(), parts.end(), IsSlices)) {
    std::vector<NodeOut> values, indices;
    for (NodeOut p : parts) {
      values.push_back(p.node->input(0));
      indices.push_back(p.node->input(1));
    }
    SameIndexType(&indices, target);
    if (!ok()) return {};
    const NodeOut all = Concat(target, values), rows = Concat(target, indices);
    return AddSlices(target, all, rows, parts[0].node->input(2));
  }
  if (options_.aggregation == Aggregation::kAddN) return Add(target, "AddN", "AddN", {GradArg(std::move(parts))});
  while (ok() && parts.size() > 1) {
    std::vector<NodeOut> sums;
    for (size_t i = 0; i + 1 < parts.size(); i += 2)
      sums.push_back(Add(target, "Add", "AddV2", {parts[i], parts[i + 1]}));
    if (parts.size() % 2 == 1) sums.push_back(parts.back());
    parts = std::move(sums);
  }
  return ok() ? parts[0] : NodeOut{};
}

bool Backprop::MergeSlices(Node* n, const NodeOut (&sides)[2], LoopFrame* target) {
  const NodeOut first = sides[0].valid() ? sides[0] : sides[1];
  for (const NodeOut side : sides) {
    if (side.valid() && !IsSlices(side)) return false;
  }
  const std::optional<TensorShape> shape = KnownShape(n->input(0));
  if (!shape.has_value()) return false;
  const int guard = forward_.GuardOf(n);
  std::vector<Node*> gate;
  if (guard != 0) gate.push_back(GuardNode(guard, target));
  std::vector<NodeOut> values, indices;
  for (int k = 0; k < 2 && ok(); ++k) {
    if (sides[k].valid()) {
      values.push_back(sides[k].node->input(0));
      indices.push_back(sides[k].node->input(1));
      continue;
    }
    const Slices none = NoSlices(target, BaseType(first.dtype()), BaseType(first.node->input(1).dtype()), *shape);
    const NodeOut pred = Value(n->input(1), target);
    const NodeOut v = Add(target, "slices/Switch", "Switch", {none.values, pred}, {}, gate);
    const NodeOut i = Add(target, "slices/Switch", "Switch", {none.indices, pred}, {}, gate);
    if (!ok()) return true;
    values.push_back({v.node, k});
    indices.push_back({i.node, k});
  }
  SameIndexType(&indices, target);
  if (!ok()) return true;
  const NodeOut v = Add(target, "slices/Merge", "Merge", {GradArg(values)});
  const NodeOut i = Add(target, "slices/Merge", "Merge", {GradArg(indices)});
  if (ok()) AddGrad(n->input(0), AddSlices(target, v, i, *shape), target, guard);
  return true;
}

bool Backprop::AccumulateSlices(Node* enter, NodeOut grad, LoopFrame* backward, NodeOut cond, LoopFrame* target) {
  const std::optional<TensorShape> shape = KnownShape({enter, 0});
  if (!IsSlices(grad) || !shape.has_value()) return false;
  const NodeOut values = grad.node->input(0), indices = grad.node->input(1);
  const Slices none = NoSlices(target, BaseType(values.dtype()), BaseType(indices.dtype()), *shape);
  const auto collect = [&](NodeOut start, NodeOut part) {
    const NodeOut merge = AddLoopMerge(AddEnter(start, backward, false, "slices/Enter"), backward, "slices/Merge");
    const NodeOut branch = Add(backward, "slices/Switch", "Switch", {merge, cond});
    if (!ok()) return NodeOut{};
    const NodeOut all = Concat(backward, {NodeOut{branch.node, 1}, part});
    Close(merge, Add(backward, "slices/NextIteration", "NextIteration", {all}));
    return Add(backward, "slices/Exit", "Exit", {branch});
  };
  const NodeOut all_values = ok() ? collect(none.values, values) : NodeOut{};
  const NodeOut all_indices = ok() ? collect(none.indices, indices) : NodeOut{};
  if (ok())
    AddGrad(enter->input(0), AddSlices(target, all_values, all_indices, *shape), target,
            forward_.FrameOf(enter)->guard);
  return true;
}

void Backprop::RemoveUnusedSums(const std::vector<NodeOut>& results, int before) {
  HashSet<const Node*> kept;
  for (NodeOut r : results) {
    if (r.valid()) kept.insert(r.node);
  }
  for (int id = graph_->num_node_ids() - 1; id >= before; --id) {
    Node* n = graph_->node(id);
    if (n == nullptr || !IsSlices({n, 0}) || !n->out_edges().empty() || kept.contains(n)) continue;
    graph_->RemoveNode(n);
  }
}

}  // namespace troupe::autodiff
