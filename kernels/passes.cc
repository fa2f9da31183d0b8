#include "troupe/passes.h"

#include "graph/passes/cse.h"
#include "graph/passes/fold.h"
#include "graph/passes/prune.h"
#include "kernels/pass_support.h"

namespace troupe {

absl::StatusOr<std::unique_ptr<Graph>> PruneGraph(const Graph& graph, absl::Span<const std::string> feeds,
                                                  absl::Span<const std::string> fetches,
                                                  absl::Span<const std::string> targets) {
  TROUPE_ASSIGN_OR_RETURN(PrunedGraph pruned, PruneForExecution(graph, feeds, fetches, targets));
  return std::move(pruned.graph);
}

absl::Status MergeCommonSubexpressions(Graph* graph) { return EliminateCommonSubexpressions(graph).status(); }

absl::Status FoldGraph(Graph* graph) {
  KernelEvaluator evaluator;
  return FoldConstants(graph, &evaluator).status();
}

}  // namespace troupe
