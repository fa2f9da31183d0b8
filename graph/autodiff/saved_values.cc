// Forward values in backward loops.
//
// What does not vary in the forward loop is entered into the backward loop as a constant. What does
// is pushed on a stack in each forward iteration in which it is alive and popped in the matching
// backward iteration. Pushes and pops must each happen in the order of iterations although several
// iterations may be in flight, so they hang between two points of a counter's cycle:
//
//   forward:   index(i) -> push -> pushes_done(i) -> NextIteration of the counter -> index(i+1)
//   backward:  pivot(i) -> pop  -> pops_done(i)   -> NextIteration of the counter -> pivot(i-1)
//
// (index and pivot are the counter's Add and Sub; the *_done nodes are ControlTriggers, which fire
// for dead inputs too: a value in the untaken branch of a conditional is neither pushed nor
// popped.) A stack belongs to the base frame and serves all executions of an inner loop one after
// the other.
#include <algorithm>

#include "graph/autodiff/backprop.h"

namespace troupe::autodiff {

NodeOut Backprop::Value(NodeOut v, LoopFrame* target) {
  if (!ok() || !v.valid()) return {};
  if (forward_.OutputFrame(v) == target) return v;
  if (const auto it = target->values.find(v); it != target->values.end()) return it->second;
  // Along what only hands a value on, from the far end back: MakeValue finds its input made, and
  // chains of any length need no stack.
  std::vector<NodeOut> chain{v};
  for (;;) {
    const NodeOut at = chain.back();
    if (target->reverses == nullptr || forward_.OutputFrame(at) != target->reverses) break;
    if (!at.node->op().Has(OpTrait::kForwardsInput) && !at.node->IsSwitch()) break;
    const NodeOut in = at.node->input(0);
    if (!in.valid() || forward_.IsLoopSwitch(at.node) || target->values.contains(in)) break;
    if (at.node->IsSwitch() ? !IsInvariant(at) : forward_.GuardOf(in) != forward_.GuardOf(at)) break;
    chain.push_back(in);
  }
  NodeOut made;
  for (auto it = chain.rbegin(); it != chain.rend() && ok(); ++it) {
    made = MakeValue(*it, target);
    if (ok()) target->values[*it] = made;
  }
  return made;
}

NodeOut Backprop::MakeValue(NodeOut v, LoopFrame* target) {
  if (target->reverses == nullptr) {
    Fail(v.node->At(Internal("its value is needed outside of its loop")));
    return {};
  }
  Node* n = v.node;
  if (forward_.OutputFrame(v) != target->reverses) return EnterConstant(Value(v, target->parent), target);
  if (ForwardGraph::IsConstantEnter(n)) return EnterConstant(Value(n->input(0), target->parent), target);
  const int guard = forward_.GuardOf(v);
  if (n->IsConstant()) {
    std::vector<Node*> gate;
    if (guard != 0) gate.push_back(GuardNode(guard, target));
    return Add(target, StrCat("saved/", n->name()), n->op().name, {}, n->attrs(), gate);
  }
  if (n->op().Has(OpTrait::kForwardsInput) && forward_.GuardOf(n->input(0)) == guard) return Value(n->input(0), target);
  if (n->IsSwitch() && !forward_.IsLoopSwitch(n) && IsInvariant(v)) {
    const NodeOut s = Add(target, "Switch", "Switch", {Value(n->input(0), target), Value(n->input(1), target)});
    return {s.node, v.index};
  }
  return PushAndPop(v, target);
}

bool Backprop::IsInvariant(NodeOut v) const {
  std::vector<NodeOut> chain;
  bool invariant = false;
  for (;; v = v.node->input(0)) {
    if (!v.valid()) break;
    const Node* n = v.node;
    if (ForwardGraph::IsConstantEnter(n)) {
      invariant = true;
      break;
    }
    if (!n->op().Has(OpTrait::kForwardsInput) && (!n->IsSwitch() || forward_.IsLoopSwitch(n))) break;
    if (const auto it = invariant_.find(v); it != invariant_.end()) {
      invariant = it->second;
      break;
    }
    chain.push_back(v);
  }
  for (NodeOut c : chain) invariant_[c] = invariant;
  return invariant;
}

NodeOut Backprop::EnterConstant(NodeOut v, LoopFrame* target) {
  if (!ok()) return {};
  if (const auto it = target->values.find(v); it != target->values.end()) return it->second;
  const NodeOut e = AddEnter(v, target, true, "Enter");
  if (ok()) target->values[v] = e;
  return e;
}

NodeOut Backprop::ForwardHandle(NodeOut stack, LoopFrame* frame) {
  if (!ok() || frame == base_) return stack;
  const NodeOut handle = AddEnter(ForwardHandle(stack, frame->parent), frame, true, "saved/stack_in");
  // A loop in an untaken branch is dead as a whole.
  if (ok() && frame->guard != 0) {
    for (Node* gate : LoopGates(frame)) graph_->AddControlEdge(gate, handle.node);
  }
  return handle;
}

NodeOut Backprop::NewStack(LoopFrame* loop, DType dtype, std::string_view name) {
  const LoopFrame* outermost = loop;
  while (outermost->parent != base_) outermost = outermost->parent;
  const std::vector<Node*> gates = LoopGates(outermost);
  const int base_guard = outermost->guard;
  const NodeOut size = AddForward(base_, base_guard, "saved/max_size", "Const", {},
                                  {{"dtype", DType::kInt32}, {"value", Tensor::Scalar<int32_t>(-1)}}, gates);
  return AddForward(base_, base_guard, name, "StackV2", {size}, {{"elem_type", dtype}, {"stack_name", ""}});
}

void Backprop::InOrder(Node* node, LoopFrame* target) {
  if (!ok()) return;
  if (target->pops_done != nullptr) {
    graph_->AddControlEdge(node, target->pops_done);
    return;
  }
  target->pops_done = AddForward(target, 0, "saved/pops_done", "ControlTrigger", {}, {}, {node}).node;
  if (ok()) graph_->AddControlEdge(target->pops_done, target->next_count);
}

NodeOut Backprop::PushAndPop(NodeOut v, LoopFrame* target) {
  LoopFrame* loop = target->reverses;
  const DType dtype = BaseType(v.dtype());
  const NodeOut stack = NewStack(loop, dtype, "saved/stack");
  const NodeOut push = AddForward(loop, forward_.GuardOf(v), "saved/push", "StackPushV2",
                                  {ForwardHandle(stack, loop), v}, {}, {target->forward_index});
  if (!ok()) return {};
  if (target->pushes_done == nullptr) {
    target->pushes_done = AddForward(loop, 0, "saved/pushes_done", "ControlTrigger", {}, {}, {push.node}).node;
    if (!ok()) return {};
    graph_->AddControlEdge(target->pushes_done, target->forward_next);
  } else {
    graph_->AddControlEdge(push.node, target->pushes_done);
  }

  const NodeOut pop = Add(target, "saved/pop", "StackPopV2", {Value(stack, target)}, {{"elem_type", dtype}},
                          {GuardNode(forward_.GuardOf(v), target)});
  InOrder(pop.node, target);
  return ok() ? pop : NodeOut{};
}

Node* Backprop::GuardNode(int guard, LoopFrame* target) {
  if (guard == 0) return target->pivot;
  if (const auto it = target->gates.find(guard); it != target->gates.end()) return it->second;
  std::vector<GuardItem> items = forward_.Items(guard);
  const GuardItem last = items.back();
  items.pop_back();
  const int rest = forward_.Intern(std::move(items));
  const NodeOut pred = Value(last.pred, target);
  const NodeOut side = Add(target, "guard/Switch", "Switch", {pred, pred});
  std::vector<Node*> gate;
  if (ok() && forward_.GuardOf(last.pred) != rest) gate.push_back(GuardNode(rest, target));
  Node* node = Add(target, "guard/alive", "Identity", {NodeOut{side.node, last.side}}, {}, gate).node;
  if (ok()) target->gates[guard] = node;
  return node;
}

std::vector<Node*> Backprop::LoopGates(const LoopFrame* loop) {
  std::vector<Node*> gates;
  if (loop->parent == forward_.root() && loop->guard == 0) return gates;
  // One that tells all, and not one that is alive when the parent's last, unfinished iteration is.
  for (const Node* e : loop->enters) {
    const NodeOut in = e->input(0);
    if (forward_.GuardOf(in) == loop->guard && !IsInvariant(in)) return {Anchor(in)};
  }
  for (const Node* e : loop->enters) {
    if (Node* a = Anchor(e->input(0))) gates.push_back(a);
  }
  return gates;
}

NodeOut Backprop::Zeros(NodeOut v, LoopFrame* target, DType dtype) {
  if (!ok()) return {};
  LoopFrame* at = forward_.OutputFrame(v);
  if (BaseType(v.dtype()) == DType::kResource) {
    const NodeOut shape = Add(target, "VariableShape", "VariableShape", {Value(v, target)});
    return Add(target, "zeros", "Fill", {shape, ZeroScalar(target, dtype)});
  }
  const bool here = at == target;
  if (here) return Add(target, "zeros", "ZerosLike", {v});
  if (at != target->reverses || IsInvariant(v)) return Add(target, "zeros", "ZerosLike", {Value(v, target)});
  NodeOut shape;
  std::vector<Node*> gate;
  if (const int guard = forward_.GuardOf(v); guard != 0) gate.push_back(GuardNode(guard, target));
  if (const PartialTensorShape known = forward_.Shape(v); known.IsFullyDefined()) {
    std::vector<int32_t> dims(known.dims().begin(), known.dims().end());
    shape = Add(target, "shape", "Const", {},
                {{"dtype", DType::kInt32}, {"value", Tensor::Vector<int32_t>(absl::MakeConstSpan(dims))}}, gate);
  } else {
    NodeOut saved = shapes_[v];
    if (!saved.valid()) shapes_[v] = saved = AddForward(at, forward_.GuardOf(v), "saved/shape", "Shape", {v});
    shape = Value(saved, target);
  }
  return Add(target, "zeros", "Fill", {shape, ZeroScalar(target, dtype, gate)});
}

}  // namespace troupe::autodiff
