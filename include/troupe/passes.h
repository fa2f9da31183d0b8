// Passes that a session applies to a graph before it runs it, for programs that show or keep the
// result.
//
//   auto pruned = PruneGraph(graph, {"x"}, {"loss"}, {});   // what a step that fetches "loss" runs
//   absl::Status s = FoldGraph(pruned->get());               // constants are computed once
//
// Source of the semantics: section 4.2 of TensorFlow's white paper for pruning at feeds and
// fetches, 5.1 for common subexpressions.
//
// Thread rule: the graph that is pruned must not be changed meanwhile; one that is changed must be
// the caller's own.
#ifndef TROUPE_PASSES_H_
#define TROUPE_PASSES_H_

#include <memory>
#include <string>

#include "absl/types/span.h"
#include "troupe/export.h"
#include "troupe/graph.h"

namespace TROUPE_EXPORT troupe {

// A graph of its own with the nodes that the fetches ("x", "x:1") and targets (nodes) need, cut off
// at the feeds: a feed becomes an `_Arg` and a fetch gets a `_Retval`, numbered in their order.
// Errors: NOT_FOUND for unknown names; INVALID_ARGUMENT for a tensor that is fed twice, and for a
// placeholder that is needed but not fed.
absl::StatusOr<std::unique_ptr<Graph>> PruneGraph(const Graph& graph, absl::Span<const std::string> feeds,
                                                  absl::Span<const std::string> fetches,
                                                  absl::Span<const std::string> targets);

// Of several nodes that compute the same from the same inputs, the first one stays.
// INVALID_ARGUMENT when the graph has a cycle without NextIteration.
absl::Status MergeCommonSubexpressions(Graph* graph);

// Computes nodes that depend on constants alone, with the kernels of the CPU; what fails stays, and
// will fail in the step. INVALID_ARGUMENT as above.
absl::Status FoldGraph(Graph* graph);

}  // namespace troupe

#endif  // TROUPE_PASSES_H_
