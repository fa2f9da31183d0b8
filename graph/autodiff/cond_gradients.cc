// Conditionals. A Switch's gradient is a Merge of the gradients of its two sides, and a Merge's
// gradient is a Switch on the forward predicate.
#include <algorithm>

#include "graph/autodiff/backprop.h"

namespace troupe::autodiff {

NodeOut Backprop::AliveAs(NodeOut v, NodeOut grad, int guard, LoopFrame* target) {
  const int whole = forward_.GuardOf(v);
  if (!ok() || guard == whole) return grad;
  std::vector<GuardItem> items = forward_.Items(guard), more;
  const std::vector<GuardItem>& kept = forward_.Items(whole);
  std::set_difference(items.begin(), items.end(), kept.begin(), kept.end(), std::back_inserter(more));
  if (more.empty()) return grad;
  const NodeOut zeros = Zeros(v, target, BaseType(grad.dtype()));
  if (!ok()) return {};
  // Not every op's gradient dies with what arrives at it.
  grad = Add(target, "guard/gradient", "Identity", {grad}, {}, {GuardNode(guard, target)});
  // One condition after the other, the innermost first: where the rest holds and it does not there
  // are zeros.
  for (; !more.empty() && ok(); more.pop_back()) {
    const GuardItem& item = more.back();
    items.erase(std::lower_bound(items.begin(), items.end(), item));
    const int rest = forward_.Intern(items);
    std::vector<Node*> gate;
    if (rest != 0) gate.push_back(GuardNode(rest, target));
    const NodeOut s = Add(target, "guard/Switch", "Switch", {zeros, Value(item.pred, target)}, {}, gate);
    if (!ok()) return {};
    grad = Add(target, "guard/Merge", "Merge", {GradArg(std::vector<NodeOut>{grad, NodeOut{s.node, 1 - item.side}})});
  }
  return grad;
}

void Backprop::SwitchGradient(Node* n, LoopFrame* target) {
  NodeOut sides[2] = {Sum({n, 0}, target), Sum({n, 1}, target)};
  if (!ok()) return;
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
