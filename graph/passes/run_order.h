// The order in which one thread runs the nodes of a part without control flow.
//
// A step takes nodes that are ready off a stack; those that only order others, off a queue that
// goes first (StepState::RunOrdering). What a node makes ready is put on the stack after the node,
// in the order of the node's edges: its last consumer is the next to run. Of an output's consumers
// those that read only its shape come last, and so run at once: otherwise they would lie below all
// that the others lead to, and hold the value for as long. Control edges come behind the data.
// Constants do not run: they come last.
//
// Thread rule: the graph must not be changed meanwhile.
#ifndef TROUPE_GRAPH_PASSES_RUN_ORDER_H_
#define TROUPE_GRAPH_PASSES_RUN_ORDER_H_

#include <vector>

#include "troupe/graph.h"

namespace troupe {

// Whether the edge comes behind others of its output.
inline bool ReadsOnlyShape(const Edge& e) { return !e.IsControl() && e.dst->op().Has(OpTrait::kReadsOnlyShape); }

// All nodes but SOURCE and SINK. REQUIRES: no control flow, no cycle.
std::vector<Node*> RunOrder(const Graph& graph);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_RUN_ORDER_H_
