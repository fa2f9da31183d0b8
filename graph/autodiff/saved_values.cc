// Forward values in backward loops.
//
// What does not vary in the forward loop is entered into the backward loop as a constant. What does is pushed on a stack in each forward iteration in which it is
// alive and popped in the matching backward iteration. Pushes and pops must each happen in the order of iterations although several iterations may be in
// flight, so they hang between two points of a counter's cycle:
//
//   forward:   index(i) -> push -> pushes_done(i) -> NextIteration of the counter -> index(i+1)
//   backward:  pivot(i) -> pop  -> pops_done(i)   -> NextIteration of the counter -> pivot(i-1)
//
// (index and pivot are the counter's Add and Sub; the *_done nodes are ControlTriggers, which fire for dead inputs too: a value in the untaken branch of a
// conditional is neither pushed nor popped.) A stack belongs to the base frame and serves all executions of an inner loop one after the other.
#include <algorithm>

#include "troupe/graph/autodiff/backprop.h"

namespace troupe::autodiff {

NodeOut Backprop::Value(NodeOut v, Frame* target) {
  if (!ok() || !v.valid()) return {};
  if (forward_.OutputFrame(v) == target) return v;
  if (const auto it = target->values.find(v); it != target->values.end()) return it->second;
  const NodeOut made = MakeValue(v, target);
  if (ok()) target->values[v] = made;
  return made;
}

NodeOut Backprop::MakeValue(NodeOut v, Frame* target) {
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
  if (n->op().name == "Identity" && forward_.GuardOf(n->input(0)) == guard) return Value(n->input(0), target);
  if (n->IsSwitch() && !forward_.IsLoopSwitch(n) && IsInvariant(v)) {
    const NodeOut s = Add(target, "Switch", "Switch", {Value(n->input(0), target), Value(n->input(1), target)});
    return {s.node, v.index};
  }
  return PushAndPop(v, target);
}

bool Backprop::IsInvariant(NodeOut v) const {
  const Node* n = v.node;
  if (ForwardGraph::IsConstantEnter(n)) return true;
  if (n->op().name == "Identity" || (n->IsSwitch() && !forward_.IsLoopSwitch(n)))
    return n->input(0).valid() && IsInvariant(n->input(0));
  return false;
}

NodeOut Backprop::EnterConstant(NodeOut v, Frame* target) {
  if (!ok()) return {};
  if (const auto it = target->values.find(v); it != target->values.end()) return it->second;
  const NodeOut e = AddEnter(v, target, true, "Enter");
  if (ok()) target->values[v] = e;
  return e;
}

NodeOut Backprop::ForwardHandle(NodeOut stack, Frame* frame) {
  if (!ok() || frame == base_) return stack;
  const NodeOut handle = AddEnter(ForwardHandle(stack, frame->parent), frame, true, "saved/stack_in");
  // A loop in an untaken branch is dead as a whole.
  if (ok() && frame->guard != 0) {
    for (Node* gate : LoopGates(frame)) graph_->AddControlEdge(gate, handle.node);
  }
  return handle;
}

NodeOut Backprop::PushAndPop(NodeOut v, Frame* target) {
  Frame* loop = target->reverses;
  const Frame* outermost = loop;
  while (outermost->parent != base_) outermost = outermost->parent;
  const DType dtype = BaseType(v.dtype());
  const std::vector<Node*> gates = LoopGates(outermost);
  const int base_guard = outermost->guard;

  const NodeOut size = AddForward(base_, base_guard, "saved/max_size", "Const", {},
                                  {{"dtype", DType::kInt32}, {"value", Tensor::Scalar<int32_t>(-1)}}, gates);
  const NodeOut stack =
      AddForward(base_, base_guard, "saved/stack", "StackV2", {size}, {{"elem_type", dtype}, {"stack_name", ""}});
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
  if (!ok()) return {};
  if (target->pops_done == nullptr) {
    target->pops_done = AddForward(target, 0, "saved/pops_done", "ControlTrigger", {}, {}, {pop.node}).node;
    if (!ok()) return {};
    graph_->AddControlEdge(target->pops_done, target->next_count);
  } else {
    graph_->AddControlEdge(pop.node, target->pops_done);
  }
  return pop;
}

Node* Backprop::GuardNode(int guard, Frame* target) {
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

std::vector<Node*> Backprop::LoopGates(const Frame* loop) {
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

NodeOut Backprop::Zeros(NodeOut v, Frame* target, DType dtype) {
  if (!ok()) return {};
  Frame* at = forward_.OutputFrame(v);
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
    NodeOut& made = shapes_[v];
    if (!made.valid()) made = AddForward(at, forward_.GuardOf(v), "saved/shape", "Shape", {v});
    const NodeOut saved = made;
    shape = Value(saved, target);
  }
  return Add(target, "zeros", "Fill", {shape, ZeroScalar(target, dtype, gate)});
}

}  // namespace troupe::autodiff
