// Conditionals. A Switch's gradient is a Merge of the gradients of its two sides, and a Merge's
// gradient is a Switch on the forward predicate. Of slices, both are made of values and indices.
#include <algorithm>

#include "graph/autodiff/backprop.h"

namespace troupe::autodiff {

NodeOut Backprop::AliveAs(NodeOut v, NodeOut grad, int guard, LoopFrame* target) {
  const int whole = forward_.GuardOf(v);
  if (!ok() || guard == whole) return grad;
  const std::vector<GuardItem> items = forward_.Items(guard);
  std::vector<GuardItem> more;
  const std::vector<GuardItem>& kept = forward_.Items(whole);
  std::set_difference(items.begin(), items.end(), kept.begin(), kept.end(), std::back_inserter(more));
  if (more.empty()) return grad;
  // Not every op's gradient dies with what arrives at it.
  const auto complete = [&](NodeOut part, NodeOut zeros) {
    std::vector<GuardItem> alive = items, open = more;
    part = Add(target, "guard/gradient", "Identity", {part}, {}, {GuardNode(guard, target)});
    // One condition after the other, the innermost first: where the rest holds and it does not
    // there are zeros.
    for (; !open.empty() && ok(); open.pop_back()) {
      const GuardItem& item = open.back();
      alive.erase(std::lower_bound(alive.begin(), alive.end(), item));
      const int rest = forward_.Intern(alive);
      std::vector<Node*> gate;
      if (rest != 0) gate.push_back(GuardNode(rest, target));
      const NodeOut s = Add(target, "guard/Switch", "Switch", {zeros, Value(item.pred, target)}, {}, gate);
      if (!ok()) return NodeOut{};
      part = Add(target, "guard/Merge", "Merge", {GradArg(std::vector<NodeOut>{part, NodeOut{s.node, 1 - item.side}})});
    }
    return part;
  };
  if (const std::optional<TensorShape> shape = KnownShape(v); IsSlices(grad) && shape.has_value()) {
    const NodeOut values = grad.node->input(0), indices = grad.node->input(1);
    const Slices none = NoSlices(target, BaseType(values.dtype()), BaseType(indices.dtype()), *shape);
    if (!ok()) return {};
    const NodeOut all_values = complete(values, none.values);
    const NodeOut all_indices = complete(indices, none.indices);
    return ok() ? AddSlices(target, all_values, all_indices, *shape) : NodeOut{};
  }
  const NodeOut zeros = Zeros(v, target, BaseType(grad.dtype()));
  return ok() ? complete(grad, zeros) : NodeOut{};
}

void Backprop::SwitchGradient(Node* n, LoopFrame* target) {
  NodeOut sides[2] = {Sum({n, 0}, target), Sum({n, 1}, target)};
  if (!ok() || MergeSlices(n, sides, target)) return;
  for (int k = 0; k < 2; ++k) {
    if (sides[k].valid()) continue;
    // Nothing depends on this side, but the gradient must be alive when it is taken: zeros that
    // only live then.
    const DType dtype = BaseType(sides[1 - k].dtype());
    if (target == base_) {
      sides[k] = Zeros({n, k}, target, dtype);
    } else {
      const NodeOut zeros = Zeros(n->input(0), target, dtype);
      const NodeOut s = Add(target, StrCat(n->name(), "_grad/Switch"), "Switch", {zeros, Value(n->input(1), target)});
      if (!ok()) return;
      sides[k] = {s.node, k};
    }
  }
  AddGrad(n->input(0),
          Add(target, StrCat(n->name(), "_grad/Merge"), "Merge", {GradArg(std::vector<NodeOut>{sides[0], sides[1]})}),
          target, forward_.GuardOf(n));
}

void Backprop::MergeGradient(Node* n, LoopFrame* target) {
  const NodeOut grad = Sum({n, 0}, target);
  if (!grad.valid()) return;
  const std::string name = StrCat(n->name(), "_grad/");
  // The usual form: two inputs that differ in the side of one predicate.
  if (n->num_inputs() == 2) {
    const std::vector<GuardItem>& rest = forward_.Items(forward_.GuardOf(n));
    GuardItem own[2];
    bool usual = true;
    for (int i = 0; i < 2; ++i) {
      const std::vector<GuardItem>& items = forward_.Items(forward_.GuardOf(n->input(i)));
      usual &= items.size() == rest.size() + 1;
      if (!usual) break;
      size_t at = 0;
      while (at < rest.size() && !(items[at] < rest[at]) && !(rest[at] < items[at])) ++at;
      own[i] = items[at];
    }
    if (usual && own[0].order == own[1].order && own[0].side != own[1].side) {
      const NodeOut s = Add(target, StrCat(name, "Switch"), "Switch", {grad, Value(own[0].pred, target)});
      if (!ok()) return;
      for (int i = 0; i < 2; ++i) AddGrad(n->input(i), {s.node, own[i].side}, target, forward_.GuardOf(n->input(i)));
      return;
    }
  }
  // In general the Merge tells which input it took.
  const NodeOut taken = Value({n, 1}, target);
  for (int i = 0; i < n->num_inputs() && ok(); ++i) {
    if (!Needed(n->input(i))) continue;
    const NodeOut is =
        Add(target, StrCat(name, "Equal"), "Equal", {taken, ConstInt32(target, StrCat(name, "index"), i)});
    const NodeOut s = Add(target, StrCat(name, "Switch"), "Switch", {grad, is});
    if (ok()) AddGrad(n->input(i), {s.node, 1}, target, forward_.GuardOf(n->input(i)));
  }
}

}  // namespace troupe::autodiff
