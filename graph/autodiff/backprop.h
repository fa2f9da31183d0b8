// One call of AddGradients: the walk backwards through the graph, frame by frame.
//
// A *region* is one forward frame together with the frame that its gradient nodes are added to, its
// *target*. For the region where ys and xs live, the base, both are the same; for a loop the target
// is a new, backward loop. Within a region, nodes and inner loops (each as one unit) are processed
// when all that use their outputs have been.
//
// Errors stick: after the first error every function here does nothing and returns invalid values;
// status() returns the error.
//
// Source of the semantics: white paper, section 4.1; for loops TensorFlow 1.x. Thread rule: as for
// the graph, one thread at a time.
#ifndef TROUPE_GRAPH_AUTODIFF_BACKPROP_H_
#define TROUPE_GRAPH_AUTODIFF_BACKPROP_H_

#include <optional>
#include <string>
#include <vector>

#include "graph/autodiff/forward_graph.h"
#include "graph/core/hash_map.h"
#include "troupe/gradient_function.h"
#include "troupe/gradients.h"
#include "troupe/slices_mark.h"

namespace troupe::autodiff {

// An x. A variable that is differentiated in the body of a loop or in a branch is several tensors
// there: its handle, and each of its reads that was brought in from outside. Its gradient is the
// sum of theirs.
struct GradientSource {
  std::vector<NodeOut> parts;  // not empty
  NodeOut outside;             // what the caller named, for messages
};

// As AddGradients, for such sources.
absl::Status AddGradientsOf(Graph* graph, absl::Span<const NodeOut> ys, absl::Span<const GradientSource> xs,
                            absl::Span<const NodeOut> grad_ys, const GradientOptions& options,
                            std::vector<NodeOut>* grads);

class Backprop {
 public:
  Backprop(Graph* graph, const GradientOptions& options) : graph_(graph), options_(options), forward_(graph) {}
  absl::Status Run(absl::Span<const NodeOut> ys, absl::Span<const GradientSource> xs, absl::Span<const NodeOut> grad_ys,
                   std::vector<NodeOut>* grads);

 private:
  friend class GradContext;

  // --- Building nodes (build.cc) ---
  bool ok() const { return status_.ok(); }
  void Fail(const absl::Status& s) {
    if (status_.ok()) status_ = s;
  }
  // A node in the backward (or base) frame `frame`; one without inputs that vary is made to wait
  // for the frame's pivot, so that it runs once in each iteration that counts. Returns output 0.
  NodeOut Add(LoopFrame* frame, std::string_view name, std::string_view op, std::vector<GradArg> args,
              AttrMap attrs = {}, const std::vector<Node*>& controls = {});
  // A node in a forward frame; the caller sees to it that it runs in the right iterations.
  NodeOut AddForward(LoopFrame* frame, int guard, std::string_view name, std::string_view op, std::vector<GradArg> args,
                     AttrMap attrs = {}, const std::vector<Node*>& controls = {});
  NodeOut AddNode(std::string_view name, std::string_view op, const std::vector<GradArg>& args, AttrMap attrs,
                  const std::vector<Node*>& controls, const Node* like);
  void Gate(Node* node, LoopFrame* frame);
  NodeOut ConstInt32(LoopFrame* frame, std::string_view name, int32_t v, const std::vector<Node*>& controls = {});
  NodeOut ZeroScalar(LoopFrame* frame, DType dtype, const std::vector<Node*>& controls = {});
  NodeOut AddEnter(NodeOut v, LoopFrame* frame, bool constant, std::string_view name);
  // A loop's Merge, whose second input is connected later.
  NodeOut AddLoopMerge(NodeOut enter, LoopFrame* frame, std::string_view name);
  void Close(NodeOut merge, NodeOut next);
  // A node that is alive exactly when v is (control edges out of a Switch tell no sides).
  Node* Anchor(NodeOut v);

  // --- Forward values as seen in a target frame (saved_values.cc) ---
  NodeOut Value(NodeOut v, LoopFrame* target);
  NodeOut MakeValue(NodeOut v, LoopFrame* target);
  // v does not vary from iteration to iteration of its frame, and follows from constants of the
  // loop.
  bool IsInvariant(NodeOut v) const;
  NodeOut EnterConstant(NodeOut v, LoopFrame* target);
  NodeOut PushAndPop(NodeOut v, LoopFrame* target);
  // A stack in the base frame, alive when `loop`, or the outermost of those around it, is.
  NodeOut NewStack(LoopFrame* loop, DType dtype, std::string_view name);
  // `node` of backward frame `target` touches a stack: it does so before the same node of the next
  // iteration.
  void InOrder(Node* node, LoopFrame* target);
  NodeOut ForwardHandle(NodeOut stack, LoopFrame* frame);
  // A node in `target` that is alive exactly when `guard` held in the matching forward iteration.
  Node* GuardNode(int guard, LoopFrame* target);
  // Zeros of v's shape, alive when v is. `dtype` is that of the value when v is a handle.
  NodeOut Zeros(NodeOut v, LoopFrame* target, DType dtype);
  // Nodes of which at least one is dead when the loop is, and that come before it.
  std::vector<Node*> LoopGates(const LoopFrame* loop);

  // --- The walk (backprop.cc) ---
  absl::Status Check(absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs,
                     absl::Span<const NodeOut> grad_ys) const;
  void ChoosePrefix();
  absl::Status FindBase(absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs);
  absl::Status FindRelevant(absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs);
  absl::Status CheckLoops() const;
  // The error for an x that has no gradient (unconnected.cc).
  absl::Status NotConnected(absl::Span<const NodeOut> ys, const GradientSource& x) const;
  // True for values that can have a gradient: numbers, and handles of variables. The handle of an
  // array only names the array; the array's gradient follows its flow, which is a number.
  bool Carries(NodeOut v) const {
    if (BaseType(v.dtype()) == DType::kResource) return !v.node->op().Has(OpTrait::kArrayHandle);
    return IsDifferentiable(BaseType(v.dtype()));
  }
  bool Relevant(const Node* n) const { return n->id() < static_cast<int>(relevant_.size()) && relevant_[n->id()]; }
  // True when a gradient that arrives at v is of use.
  bool Needed(NodeOut v) const;
  class RegionOrder;
  void Region(LoopFrame* forward, LoopFrame* target);
  // `grad` is alive when `guard` holds, that of what uses v; it is completed by zeros where v lives
  // besides.
  void AddGrad(NodeOut v, NodeOut grad, LoopFrame* target, int guard);
  bool HasGrad(NodeOut v) const;
  // The sum of the gradients that arrived at v; invalid when there are none.
  NodeOut Sum(NodeOut v, LoopFrame* target);
  // The sum of `parts`: slices when all of them are.
  NodeOut Total(std::vector<NodeOut> parts, LoopFrame* target);
  void NodeGradient(Node* n, LoopFrame* target);

  // --- Gradients that are slices (slices.cc) ---
  struct Slices {
    NodeOut values, indices;
  };
  // The static shape of v, or of the variable that it names, when all of it is known.
  std::optional<TensorShape> KnownShape(NodeOut v) const;
  NodeOut AddSlices(LoopFrame* target, NodeOut values, NodeOut indices, NodeOut rows);
  NodeOut AddSlices(LoopFrame* target, NodeOut values, NodeOut indices, const TensorShape& shape);
  // Slices without rows of a tensor of this shape.
  Slices NoSlices(LoopFrame* target, DType dtype, DType index, TensorShape shape);
  NodeOut Concat(LoopFrame* target, std::vector<NodeOut> parts);
  void SameIndexType(std::vector<NodeOut>* indices, LoopFrame* target);
  // As SwitchGradient and AccumulateConstant, when what arrived are slices, and the shape is known.
  // Otherwise they do nothing and return false.
  bool MergeSlices(Node* n, const NodeOut (&sides)[2], LoopFrame* target);
  bool AccumulateSlices(Node* enter, NodeOut grad, LoopFrame* backward, NodeOut cond, LoopFrame* target);
  // Removes the dense forms, among the nodes from `before` on, that nothing uses.
  void RemoveUnusedSums(const std::vector<NodeOut>& results, int before);

  // --- Stacks of earlier gradients (stacks.cc) ---
  struct Stack {
    const Node* node = nullptr;  // null when a handle could not be followed to where it is made
    std::vector<Node*> pushes, pops;
    NodeOut grads;  // a stack of the gradients of what is popped; invalid until there are any
  };
  void FindStacks();
  // UNIMPLEMENTED when values that matter leave through a stack in a way that cannot be run
  // backwards.
  absl::Status CheckStacks();
  const Stack* StackOf(const Node* n) const {
    const auto it = stack_of_.find(n);
    return it == stack_of_.end() ? nullptr : &stacks_[it->second];
  }
  void PopGradient(Node* n, LoopFrame* target);
  void PushGradient(Node* n, LoopFrame* target);
  // A gradient waits on a stack for what `loop`, or a loop in it, has pushed.
  bool HasStackedGrad(const LoopFrame* loop) const;

  // --- Conditionals (cond_gradients.cc) and loops (loop_gradients.cc) ---
  // `grad`, alive when `guard` holds, as one that is alive when v is: what stands in a branch can
  // use what no Switch has brought there.
  NodeOut AliveAs(NodeOut v, NodeOut grad, int guard, LoopFrame* target);
  void SwitchGradient(Node* n, LoopFrame* target);
  void MergeGradient(Node* n, LoopFrame* target);
  void LoopGradient(LoopFrame* loop, LoopFrame* target);
  // Adds a counter to the forward loop; returns the number of its iterations, a tensor of the
  // loop's parent frame.
  NodeOut AddForwardCounter(LoopFrame* loop, LoopFrame* backward, LoopFrame* target);
  // The backward loop's skeleton; returns its LoopCond and sets the frame's pivot and next_count.
  NodeOut AddBackwardCounter(NodeOut count, LoopFrame* backward, LoopFrame* target);
  void AccumulateConstant(Node* enter, LoopFrame* backward, NodeOut cond, LoopFrame* target);

  Graph* graph_;
  const GradientOptions& options_;
  ForwardGraph forward_;
  absl::Status status_;
  std::string prefix_;
  const Node* current_ = nullptr;  // the forward node that is being processed
  LoopFrame* base_ = nullptr;
  HashSet<NodeOut> stops_, xs_;
  std::vector<char> relevant_;
  HashMap<const LoopFrame*, std::vector<Node*>> relevant_in_;  // by frame, in the graph's order
  HashMap<NodeOut, std::vector<NodeOut>> grads_;
  HashMap<NodeOut, Node*> anchors_;
  HashMap<NodeOut, NodeOut> shapes_;  // Shape nodes in forward frames
  mutable HashMap<NodeOut, bool> invariant_;
  std::vector<Stack> stacks_;
  HashMap<const Node*, int> stack_of_;  // by push and pop
  // By loop: those that push what it pops, and those that pop what it pushes; they are neither
  // around it nor in it.
  HashMap<const LoopFrame*, std::vector<const LoopFrame*>> pops_from_, popped_by_;
  HashMap<const LoopFrame*, LoopFrame*> backward_of_;  // the loop that was last built for a forward loop
  HashMap<int, const Node*> made_for_;                 // by a new node's number: `current_` when it was made
};

}  // namespace troupe::autodiff

#endif  // TROUPE_GRAPH_AUTODIFF_BACKPROP_H_
