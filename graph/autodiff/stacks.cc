// Gradients of gradients through loops.
//
// The graph that is differentiated may have been differentiated before: a loop F pushes values on a
// stack, and B, its backward loop, pops them in the reverse order. What B computes depends on F by
// way of the stack alone, so push and pop count as one edge here, from the value that is pushed to
// the one that is popped.
//
// Its gradient is a stack again. B's own backward loop meets the iterations in the order in which F
// ran them, and pushes the gradient of each value that B popped; F's backward loop starts when that
// is done, meets them in the reverse order, and pops each gradient where its value was pushed:
//
//   F pushes v -> B pops v -> B' pushes dv -> F' pops dv
//
// B' and F' are what any later gradient sees as its F and B. Graphs that TensorFlow differentiated
// have stacks of the same kind.
//
// It holds only when as much is popped as was pushed, in one place each, by loops that stand side
// by side and live under the same conditions. Anything else is refused, since a gradient without it
// would be wrong.
#include <algorithm>

#include "graph/autodiff/backprop.h"
#include "graph/core/hash_map.h"

namespace troupe::autodiff {
namespace {

// Where the stack that `handle` stands for is made; null when it cannot be told.
const Node* MadeBy(NodeOut handle) {
  while (handle.valid()) {
    const Node* n = handle.node;
    if (n->op().Has(OpTrait::kStackHandle)) return n;
    if (!n->IsEnter() && !n->IsExit() && !n->IsSwitch() && !n->op().Has(OpTrait::kForwardsInput)) return nullptr;
    handle = n->input(0);
  }
  return nullptr;
}

bool Inside(const LoopFrame* inner, const LoopFrame* outer) {
  while (inner != nullptr && inner != outer) inner = inner->parent;
  return inner != nullptr;
}

}  // namespace

void Backprop::FindStacks() {
  HashMap<const Node*, int> by_maker;
  for (Node* n : forward_.order()) {
    const bool push = n->op().Has(OpTrait::kStackPush);
    if (!push && !n->op().Has(OpTrait::kStackPop)) continue;
    const Node* maker = MadeBy(n->input(0));
    const auto [it, added] = by_maker.emplace(maker, static_cast<int>(stacks_.size()));
    if (added) stacks_.push_back({.node = maker});
    Stack& stack = stacks_[it->second];
    (push ? stack.pushes : stack.pops).push_back(n);
    stack_of_[n] = it->second;
  }
}

absl::Status Backprop::CheckStacks() {
  for (const Stack& stack : stacks_) {
    const auto relevant = [&](const Node* n) { return Relevant(n); };
    const auto push = std::find_if(stack.pushes.begin(), stack.pushes.end(), relevant);
    const auto pop = std::find_if(stack.pops.begin(), stack.pops.end(), relevant);
    if (push == stack.pushes.end() || pop == stack.pops.end()) continue;
    const auto bad = [&](std::string_view why) {
      return (*pop)->At(Unimplemented("loop '", forward_.FrameOf(*pop)->name, "' takes values from a stack that loop '",
                                      forward_.FrameOf(*push)->name, "' has filled ('", (*push)->name(),
                                      "'), and the gradient through it cannot be built: ", why));
    };
    if (stack.node == nullptr) return bad("it cannot be told which stack it is");
    if (stack.pushes.size() != 1 || stack.pops.size() != 1)
      return bad("values are pushed, or popped, in more than one place");
    if (!IsDifferentiable(BaseType((*pop)->output_type(0)))) return bad("what it holds are no numbers");
    // The loops that stand side by side.
    const LoopFrame *pushing = forward_.FrameOf(*push), *popping = forward_.FrameOf(*pop);
    const LoopFrame *push_loop = nullptr, *pop_loop = nullptr;
    while (pushing != nullptr && !Inside(popping, pushing)) {
      push_loop = pushing;
      pushing = pushing->parent;
    }
    while (popping != pushing) {
      pop_loop = popping;
      popping = popping->parent;
    }
    if (push_loop == nullptr || pop_loop == nullptr || !Inside(pushing, base_))
      return bad("the two are no loops that run one after the other");
    if (push_loop->guard != pop_loop->guard) return bad("the two loops do not run under the same conditions");
    pops_from_[pop_loop].push_back(push_loop);
    popped_by_[push_loop].push_back(pop_loop);
  }
  return absl::OkStatus();
}

void Backprop::PopGradient(Node* n, LoopFrame* target) {
  const NodeOut grad = Sum({n, 0}, target);
  if (!ok() || !grad.valid() || stops_.contains(NodeOut{n, 0})) return;
  Stack& stack = stacks_[stack_of_[n]];
  if (stack.pushes.empty() || !Relevant(stack.pushes[0])) return;
  if (!stack.grads.valid())
    stack.grads = NewStack(forward_.FrameOf(stack.pushes[0]), BaseType(grad.dtype()), "stacked/stack");
  const NodeOut push = Add(target, "stacked/push", "StackPushV2", {Value(stack.grads, target), grad}, {},
                           {GuardNode(forward_.GuardOf(n), target)});
  InOrder(push.node, target);
}

void Backprop::PushGradient(Node* n, LoopFrame* target) {
  if (!stops_.contains(NodeOut{n, 0})) AddGrad(n->input(1), Sum({n, 0}, target), target, forward_.GuardOf(n));
  const Stack& stack = *StackOf(n);
  if (!ok() || !stack.grads.valid()) return;
  const NodeOut pop = Add(target, "stacked/pop", "StackPopV2", {Value(stack.grads, target)},
                          {{"elem_type", BaseType(n->input(1).dtype())}}, {GuardNode(forward_.GuardOf(n), target)});
  InOrder(pop.node, target);
  AddGrad(n->input(1), pop, target, forward_.GuardOf(n));
}

bool Backprop::HasStackedGrad(const LoopFrame* loop) const {
  return std::any_of(stacks_.begin(), stacks_.end(), [&](const Stack& stack) {
    return stack.grads.valid() && Inside(forward_.FrameOf(stack.pushes[0]), loop);
  });
}

}  // namespace troupe::autodiff
