// Common subexpression elimination: of several nodes that compute the same value from the same
// inputs, one stays.
//
// Two nodes are the same when op, attrs, data inputs (sorted, where the op is commutative), control
// inputs and devices are the same. Stateful ops, control flow, placeholders, Send, Recv and nodes
// with reference inputs or outputs are never merged.
//
// Source of the semantics: white paper, section 5.1. Thread rule: the graph must be the caller's
// own.
#ifndef TROUPE_GRAPH_PASSES_CSE_H_
#define TROUPE_GRAPH_PASSES_CSE_H_

#include "graph/passes/still_wanted.h"
#include "troupe/graph.h"

namespace troupe {

// Merges in place and returns how many nodes were removed. Of equal nodes the first in topological
// order stays. INVALID_ARGUMENT when the graph has a cycle without NextIteration; that of `wanted`.
// Linear in nodes and edges.
absl::StatusOr<int> EliminateCommonSubexpressions(Graph* graph, StillWanted wanted = nullptr);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_CSE_H_
