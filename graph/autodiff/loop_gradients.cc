// Loops. For a forward loop
//
//   Enter -> Merge -> Switch(LoopCond) -> Exit
//              ^         \-> body -> NextIteration
//              \______________________/
//
// a counter is added that leaves it with the number of iterations n, and a backward loop is built
// that runs n times:
//
//   d(Exit) -> Enter -> Merge -> Switch(count >= 1) -> Exit -> d(Enter's input)
//                         ^         \-> d(body) -> NextIteration
//
// Its variables are the gradients of those forward variables that lie between xs and ys. The
// gradients of the loop's constants are summed in variables of their own; slices are put one behind
// the other. The gradients of a nested
// loop stand in the backward loop of the outer one, where the inner n is a saved value like any
// other.
//
// A loop that pops what another one has pushed, the backward loop of an earlier gradient, is
// differentiated first: see stacks.cc.
#include "graph/autodiff/backprop.h"

namespace troupe::autodiff {

NodeOut Backprop::AddForwardCounter(LoopFrame* loop, LoopFrame* backward, LoopFrame* target) {
  if (loop->loop_cond == nullptr) {
    Fail(current_->At(Unimplemented("loop '", loop->name, "' has no LoopCond")));
    return {};
  }
  LoopFrame* parent = loop->parent;
  // The counter starts when the loop does; in a loop also after the previous execution of this one
  // has pushed what it pushes.
  std::vector<Node*> gates = LoopGates(loop);
  if (target->forward_index != nullptr) gates.push_back(target->forward_index);
  const auto constant = [&](std::string_view name, int32_t v) {
    return AddForward(parent, loop->guard, name, "Const", {},
                      {{"dtype", DType::kInt32}, {"value", Tensor::Scalar<int32_t>(v)}}, gates);
  };
  const NodeOut enter = AddEnter(constant("count/zero", 0), loop, false, "count/Enter");
  const NodeOut one = AddEnter(constant("count/one", 1), loop, true, "count/one_in");
  const NodeOut merge = AddLoopMerge(enter, loop, "count/Merge");
  const NodeOut branch = AddForward(loop, 0, "count/Switch", "Switch", {merge, NodeOut{loop->loop_cond, 0}});
  if (!ok()) return {};
  const NodeOut index = AddForward(loop, 0, "count/Add", "AddV2", {NodeOut{branch.node, 1}, one});
  const NodeOut next = AddForward(loop, 0, "count/NextIteration", "NextIteration", {index});
  Close(merge, next);
  const NodeOut exit = AddForward(loop, loop->guard, "count/Exit", "Exit", {branch});
  backward->forward_index = index.node;
  backward->forward_next = next.node;
  return exit;
}

NodeOut Backprop::AddBackwardCounter(NodeOut count, LoopFrame* backward, LoopFrame* target) {
  // The constant lives when the loop does.
  const NodeOut one = EnterConstant(ConstInt32(target, "b_count/one", 1, {Anchor(count)}), backward);
  const NodeOut enter = AddEnter(count, backward, false, "b_count/Enter");
  const NodeOut merge = AddLoopMerge(enter, backward, "b_count/Merge");
  const NodeOut more = Add(backward, "b_count/GreaterEqual", "GreaterEqual", {merge, one});
  const NodeOut cond = Add(backward, "b_count/LoopCond", "LoopCond", {more});
  const NodeOut branch = Add(backward, "b_count/Switch", "Switch", {merge, cond});
  if (!ok()) return {};
  const NodeOut index = Add(backward, "b_count/Sub", "Sub", {NodeOut{branch.node, 1}, one});
  const NodeOut next = Add(backward, "b_count/NextIteration", "NextIteration", {index});
  Close(merge, next);
  const NodeOut exit = Add(backward, "b_count/Exit", "Exit", {branch});
  if (!ok()) return {};
  backward->pivot = index.node;
  backward->next_count = next.node;
  backward->count_enter = enter.node;
  backward->count_exit = exit.node;
  // What this execution pops comes before what the next one does.
  if (target->next_count != nullptr) InOrder(exit.node, target);
  return cond;
}

void Backprop::AccumulateConstant(Node* enter, LoopFrame* backward, NodeOut cond, LoopFrame* target) {
  const NodeOut grad = Sum({enter, 0}, backward);
  if (!grad.valid() || AccumulateSlices(enter, grad, backward, cond, target)) return;
  const NodeOut start = AddEnter(Zeros(enter->input(0), target, BaseType(grad.dtype())), backward, false, "sum/Enter");
  const NodeOut merge = AddLoopMerge(start, backward, "sum/Merge");
  const NodeOut branch = Add(backward, "sum/Switch", "Switch", {merge, cond});
  if (!ok()) return;
  const NodeOut sum = Add(backward, "sum/Add", "AddV2", {NodeOut{branch.node, 1}, grad});
  Close(merge, Add(backward, "sum/NextIteration", "NextIteration", {sum}));
  AddGrad(enter->input(0), Add(backward, "sum/Exit", "Exit", {branch}), target, forward_.FrameOf(enter)->guard);
}

void Backprop::LoopGradient(LoopFrame* loop, LoopFrame* target) {
  bool any = false;
  for (const LoopVar& var : loop->vars) any |= var.exit != nullptr && Relevant(var.exit) && HasGrad({var.exit, 0});
  any = any || HasStackedGrad(loop);
  if (!any || !ok()) return;

  LoopFrame* backward =
      forward_.AddFrame({.parent = target, .parallel_iterations = loop->parallel_iterations, .reverses = loop});
  // A node's name is unique, so this frame's is.
  const NodeOut forward_count = AddForwardCounter(loop, backward, target);
  if (!ok()) return;
  backward->name = StrCat(forward_count.node->name(), "/backward");
  const NodeOut count = Value(forward_count, target);
  if (loop->guard != 0) backward->enter_gate = Anchor(count);
  const NodeOut cond = AddBackwardCounter(count, backward, target);
  if (!ok()) return;
  // What this loop will pop has been pushed by then.
  backward_of_[loop] = backward;
  for (const LoopFrame* popping : popped_by_[loop]) {
    const auto it = backward_of_.find(popping);
    if (it != backward_of_.end() && it->second->parent == target)
      graph_->AddControlEdge(it->second->count_exit, backward->count_enter);
  }

  struct GradVar {
    LoopVar* var;
    NodeOut merge, branch;
  };
  std::vector<GradVar> grad_vars;
  for (LoopVar& var : loop->vars) {
    if (!Relevant(var.merge) || !ok()) continue;
    if (var.loop_switch == nullptr)
      return Fail(var.merge->At(Unimplemented("a loop variable without a Switch has no gradient")));
    if (var.exit == nullptr) {
      var.exit = AddForward(loop, loop->guard, "Exit", "Exit", {NodeOut{var.loop_switch, 0}}).node;
      if (!ok()) return;
    }
    const NodeOut exit{var.exit, 0};
    NodeOut grad = Sum(exit, target);
    if (!grad.valid()) grad = Zeros(exit, target, BaseType(exit.dtype()));
    const NodeOut merge = AddLoopMerge(AddEnter(grad, backward, false, "b_var/Enter"), backward, "b_var/Merge");
    const NodeOut branch = Add(backward, "b_var/Switch", "Switch", {merge, cond});
    if (!ok()) return;
    AddGrad(var.next->input(0), {branch.node, 1}, backward, forward_.GuardOf(var.next->input(0)));
    grad_vars.push_back({&var, merge, branch});
  }
  const Node* at = current_;
  Region(loop, backward);
  current_ = at;
  for (const GradVar& v : grad_vars) {
    const NodeOut start{v.var->loop_switch, 1};
    NodeOut grad = Sum(start, backward);
    if (!grad.valid()) grad = Zeros(start, backward, BaseType(start.dtype()));
    Close(v.merge, Add(backward, "b_var/NextIteration", "NextIteration", {grad}));
    AddGrad(v.var->enter->input(0), Add(backward, "b_var/Exit", "Exit", {v.branch}), target, loop->guard);
  }
  for (Node* enter : loop->enters) {
    if (ForwardGraph::IsConstantEnter(enter) && Relevant(enter)) AccumulateConstant(enter, backward, cond, target);
  }
}

}  // namespace troupe::autodiff
