// Extracts the part of a graph that one signature needs: the nodes that its fetches and targets
// depend on, cut off at the feeds.
//
// Feeds and fetches become nodes: a fed output "x:0" is replaced by an `_Arg` with attr index = the
// feed's position, and each fetch gets a `_Retval` with attr index = its position. The executor
// hands values to and takes them from these nodes, so that nothing is looked up by name during a
// step.
//
// The cost is proportional to the number of needed nodes, plus one byte for each node of the graph.
// If a feed is not a placeholder, the nodes that it would be computed from count, too.
//
// Source of the semantics: white paper, section 4.2. Thread rule: a pure function of a graph that
// no thread changes meanwhile.
#ifndef TROUPE_GRAPH_PASSES_PRUNE_H_
#define TROUPE_GRAPH_PASSES_PRUNE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "graph/passes/still_wanted.h"
#include "troupe/graph.h"

namespace troupe {

inline constexpr std::string_view kArgOp = "_Arg";
inline constexpr std::string_view kRetvalOp = "_Retval";

struct PruneOptions {
  // Puts what is known of the shape of a fed tensor on its _Arg ("_output_shapes"), so that later
  // passes compute with it. Only for a caller that refuses fed values which do not fit
  // PrunedGraph::feed_shapes.
  bool trust_feed_shapes = false;
  StillWanted wanted = nullptr;
  // What to do about a name that the graph does not have, behind the error's text when no name is
  // like it. "" for nothing.
  std::string_view unknown_hint = "";
};

struct PrunedGraph {
  std::unique_ptr<Graph> graph;
  // The _Arg of each feed; null when nothing needs it.
  std::vector<Node*> args;
  // The _Retval of each fetch.
  std::vector<Node*> retvals;
  // Dtype and shape of each feed, needed or not: what a placeholder declares, and what inference
  // tells of any other tensor from the nodes of the graph.
  std::vector<DType> feed_types;
  std::vector<PartialTensorShape> feed_shapes;
};

// Feeds and fetches are tensor names ("x", "x:1"), targets node names. A name may be fetched twice,
// a fed tensor may be fetched, and feeds that nothing needs are accepted. A control edge out of a
// node that has a fed output, and that is not needed for another output, comes from the _Arg
// instead. Errors: NOT_FOUND with all unknown names at once and the names most like the first
// three; INVALID_ARGUMENT for "^n", a bad output number, a tensor that is fed twice, a reference
// that is fed although a node must write to it, and a placeholder that is needed but not fed:
// "placeholder 'x' (float32 [2,?]) must be fed; node 'loss' needs it"; that of `wanted`.
absl::StatusOr<PrunedGraph> PruneForExecution(const Graph& graph, absl::Span<const std::string> feeds,
                                              absl::Span<const std::string> fetches,
                                              absl::Span<const std::string> targets, const PruneOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_PRUNE_H_
