#include "graph/passes/step_memory.h"

#include "graph/passes/cse.h"
#include "graph/passes/fold.h"
#include "graph/passes/fuse.h"
#include "graph/passes/prune.h"
#include "kernels/pass_support.h"

namespace troupe {
namespace {

// Says of what is fed how large it is. The sizes of all else follow from these, also by constants
// that shapes become when they are known.
absl::Status SetFeedShapes(const PrunedGraph& pruned, absl::Span<const std::string> feeds,
                           const StepMemoryOptions& options) {
  for (Node* n : pruned.graph->op_nodes()) {
    const absl::StatusOr<int64_t> index = n->op().Has(OpTrait::kArgument) ? n->Attr<int64_t>("index") : int64_t{-1};
    if (!index.ok() || *index < 0 || *index >= static_cast<int64_t>(feeds.size())) continue;
    const auto i = static_cast<size_t>(*index);
    PartialTensorShape shape = pruned.feed_shapes[i];
    if (i < options.feed_shapes.size()) {
      absl::StatusOr<PartialTensorShape> merged = shape.MergeWith(options.feed_shapes[i]);
      if (!merged.ok()) return Annotate(merged.status(), StrCat("the shape of what is fed to '", feeds[i], "'"));
      shape = *std::move(merged);
    }
    if (!shape.known_rank()) continue;
    for (int k = 0; k < shape.rank(); ++k) {
      if (shape.dim(k) < 0) shape.set_dim(k, options.assumed_dimension);
    }
    n->SetAttr("_output_shapes", std::vector<PartialTensorShape>{shape});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StepMemory> PredictStepMemory(const Graph& graph, absl::Span<const std::string> feeds,
                                             absl::Span<const std::string> fetches,
                                             absl::Span<const std::string> targets, const StepMemoryOptions& options) {
  if (options.feed_shapes.size() > feeds.size())
    return InvalidArgument("there are ", options.feed_shapes.size(), " shapes of feeds, but ", feeds.size(), " feeds");
  if (options.assumed_dimension < 1)
    return InvalidArgument("unknown dimensions must be assumed to be at least 1, not ", options.assumed_dimension);
  PruneOptions prune;
  prune.trust_feed_shapes = true;
  TROUPE_ASSIGN_OR_RETURN(const PrunedGraph pruned, PruneForExecution(graph, feeds, fetches, targets, prune));
  Graph* const step = pruned.graph.get();
  KernelEvaluator evaluator;
  // What only the shapes of feeds make a constant is computed by the step, unless it is small.
  FoldOptions small;
  small.max_result_bytes = 16 << 10;
  TROUPE_RETURN_IF_ERROR(FoldConstants(step, &evaluator).status());
  TROUPE_RETURN_IF_ERROR(SetFeedShapes(pruned, feeds, options));
  TROUPE_RETURN_IF_ERROR(FoldConstants(step, &evaluator, small).status());
  TROUPE_RETURN_IF_ERROR(EliminateCommonSubexpressions(step).status());
  const KnownShapes known = InferKnownShapes(*step);
  if (options.fuse) TROUPE_RETURN_IF_ERROR(FuseNodes(step, RegistryKernelLookup()).status());
  return SimulateStep(*step, known, options.assumed_dimension);
}

}  // namespace troupe
