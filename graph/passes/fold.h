// Constant folding: nodes that depend on constants alone are computed once, when a signature is
// compiled, and not in every step.
//
// The kernels stand behind an interface, because this floor does not include any. Besides the
// consumers of constants, ops that read only shapes (OpTrait::kReadsOnlyShape) are folded when
// their inputs' shapes are known statically.
//
// Never folded: stateful ops, control flow, Send and Recv, placeholders, references, resources and
// variants, results above a limit, what the evaluator refuses or fails on (the step will then
// report the error with its address), and what waits by control edges for more than a few other
// nodes. A large tensor of one number everywhere, which nodes with state alone read, stays the node
// that makes it, outside of loops and branches. Whatever a folded node waited for by control edges,
// its constant waits for too, so that a constant stays in its frame and on its branch.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_FOLD_H_
#define TROUPE_GRAPH_PASSES_FOLD_H_

#include <vector>

#include "absl/types/span.h"
#include "graph/passes/still_wanted.h"
#include "troupe/graph.h"
#include "troupe/tensor.h"

namespace troupe {

class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;
  // The outputs of `node` for these inputs.
  virtual absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> inputs) = 0;
  // False when there is no kernel for it, or it should not be run here.
  virtual bool CanEvaluate(const Node& node) = 0;
};

struct FoldOptions {
  int64_t max_result_bytes = 10 << 20;  // of all outputs of a node together
  bool fold_shapes = true;
  StillWanted wanted = nullptr;
};

struct FoldStats {
  int evaluated = 0;  // nodes whose values are known now
  int replaced = 0;   // outputs that became constants
  int removed = 0;    // nodes that no other node needed any more
};

// Folds in place. Nodes that lose their last consumer by it are removed unless they are stateful; a
// node without consumers before (a fetch's _Retval, a target) stays. INVALID_ARGUMENT when the
// graph has a cycle without NextIteration; that of `wanted`. Linear in nodes and edges, evaluation
// apart.
absl::StatusOr<FoldStats> FoldConstants(Graph* graph, ConstantEvaluator* evaluator, const FoldOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_FOLD_H_
