// Symbolic gradients: nodes are added to the graph that compute d(sum of ys)/dx for every x.
//
// The forward graph is walked backwards from ys; each node on a path from some x to some y adds the
// nodes that its op's gradient function builds, and partial gradients that meet at a tensor are
// summed. Conditionals (Switch, Merge) and loops (frames) are recognised in the graph itself, so
// graphs that were imported differentiate like those that were built here. A loop's gradient is a
// loop that counts the iterations down; forward values that it needs are pushed on stacks by the
// forward loop and popped in reverse order.
//
//   std::vector<NodeOut> g;
//   TROUPE_RETURN_IF_ERROR(AddGradients(&graph, {loss}, {w, b}, {}, {}, &g));
//
// An x may be any output of a floating or complex type, the reference of a Variable, or the handle
// of a resource variable (its gradient is the sum of the gradients of all values read through it).
// An Output that is a Variable, or a copy of one, means the variable, however the ys read it; any
// other read of it (w.Read(scope), an imported ReadVariableOp) means the value of that read alone.
//
// A gradient can be differentiated again, also through loops.
//
// Thread rule: the graph belongs to the calling thread during the call.
#ifndef TROUPE_GRADIENTS_H_
#define TROUPE_GRADIENTS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

// How partial gradients of one tensor are summed.
enum class Aggregation {
  kAddN,  // one AddN: fastest
  kTree,  // additions in pairs: a sum can start before all its parts are there, and less memory is held
};
// What the gradient of an x is that no y depends on, or only through ops that pass no gradient on
// (StopGradient, a cast to integers).
enum class Unconnected {
  kError,  // INVALID_ARGUMENT that names x and what was likely meant
  kZeros,  // zeros of x's shape
  kNone,   // an invalid NodeOut, as TensorFlow's None
};

// Forward values that the gradients use are mostly kept from the forward pass until then, and are
// most of the memory that training takes. Those that these options choose are computed again
// instead, right before they are used, from values that are kept: less memory for more time (at
// most that of another forward pass). The results are the same: bit for bit with
// SessionOptions.fuse = false; else fused nodes may round otherwise, and so may gradients of
// gradients, whose sums then have parts of an original and of its copy.
//
// Kept in any case are variables, constants, what stateful ops make (random numbers, say), what
// PlaceholderWithDefault gives, and what is in loops and branches. A forward value that a step
// feeds must not be one that is computed again: that would not be the value fed. The copies are
// readers of variables like any other: where the same step may update a reference variable
// (VariableOptions.use_resource = false) before the gradients are done, edges must order the two.
//
// Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016); tf.recompute_grad.
struct RecomputeOptions {
  // The forward nodes below each of these names ("encoder/layer_3") are a segment, of which only
  // what comes from outside of it and what others use is kept. "encoder/*" stands for all scopes
  // directly in "encoder", each as a segment, and "*" for all outermost ones. A node belongs to the
  // first scope that it is below.
  std::vector<std::string> scopes;
  // In place of scopes: segments are chosen, few of them, so that the gradients need at most this
  // many bytes of forward values at once, by their static shapes. When no choice does, it is that
  // which needs least, and a warning is logged. 0 = none.
  int64_t budget_bytes = 0;
  // What unknown dimensions count as: the batch's size, mostly.
  int64_t assumed_dimension = 1;

  bool wanted() const { return !scopes.empty() || budget_bytes != 0; }
};

struct GradientOptions {
  // These tensors count as constants: nothing flows back through them. For a variable however it is
  // read: its handle().
  std::vector<NodeOut> stop_gradients;
  // Puts every gradient node on the device of its forward node (attr "_class").
  bool colocate_gradients_with_ops = false;
  Aggregation aggregation = Aggregation::kAddN;
  Unconnected unconnected = Unconnected::kError;
  std::string name = "gradients";  // prefix of the new nodes' names, made unique
  // Requested of new nodes that are not colocated. Those that read a resource stand beside it.
  std::string device;
  // New nodes that do not stand in a loop of their own run after these.
  std::vector<Node*> control_dependencies;
  SourceLocation location;  // of new nodes whose forward node has none
  RecomputeOptions recompute;
};

// Adds the gradients of `ys` with respect to `xs`; (*grads)[i] belongs to xs[i]. `grad_ys` is empty
// or has one entry per y, whose invalid entries mean ones. ys and xs must live in one frame:
// outside of all loops, or all in the body of the same loop.
//
// INVALID_ARGUMENT: an x on which no y depends (unless options.unconnected says otherwise); a dtype
// without gradients; a y of complex type without its grad_y; a grad_y of another type; an op on the
// way without gradient ("op 'Foo' (node 'a/b') has no gradient: why"); whatever an op's gradient
// function refuses; a scope to recompute below which nothing can be. UNIMPLEMENTED: a loop that is
// not of the form Enter, Merge, Switch, Exit/NextIteration; values that leave a loop through a
// stack in another way than those that a gradient saved. On an error the graph is as it was before.
absl::Status AddGradients(Graph* graph, absl::Span<const NodeOut> ys, absl::Span<const NodeOut> xs,
                          absl::Span<const NodeOut> grad_ys, const GradientOptions& options,
                          std::vector<NodeOut>* grads);

// As AddGradients, with the scope's names, device, control dependencies and error: on a failure the
// scope is no longer ok and every entry is an invalid Output. In the function of a While or Cond,
// tensors from outside stand for what they are called inside: an x from outside is a source there,
// and all else from outside a constant. `options.name`, `device`, `control_dependencies` and
// `location` are the scope's: `name` is put behind its prefix.
std::vector<Output> Gradients(const ScopeAt& scope, const std::vector<Output>& ys, const std::vector<Output>& xs,
                              const std::vector<Output>& grad_ys = {}, GradientOptions options = {});

// True for the types that gradients are made for: floating and complex ones.
bool IsDifferentiable(DType dtype);

}  // namespace troupe

#endif  // TROUPE_GRADIENTS_H_
