// The order in which one thread runs the nodes of a part without control flow.
//
// A step takes nodes that are ready off a stack; those that only order others, off a queue that
// goes first (StepState::RunOrdering). What a node makes ready is put on the stack after the node,
// in the order of the node's edges: its last consumer is the next to run. So that values are held
// as briefly as may be, the edges of an output are in this order (PlaceOf):
//
//   1. to consumers of its values, those first after which the longest way to the end is left: the
//      gradient of a layer's weights, say, runs before the gradients of all layers in front of it;
//   2. to those that read only its shape;
//   3. control edges.
//
// Constants do not run: they come last.
//
// Thread rule: the graph must not be changed meanwhile.
#ifndef TROUPE_GRAPH_PASSES_RUN_ORDER_H_
#define TROUPE_GRAPH_PASSES_RUN_ORDER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "troupe/graph.h"

namespace troupe {

// By node number: how many nodes come after it on the longest way to a node that nothing uses.
// Along back edges of loops it is not defined.
std::vector<uint32_t> Heights(const Graph& graph);

// Where a data edge comes among those of its output: less is earlier. `heights` may be empty.
inline uint32_t PlaceOf(const Edge& e, const std::vector<uint32_t>& heights) {
  if (e.dst->op().Has(OpTrait::kReadsOnlyShape)) return std::numeric_limits<uint32_t>::max();
  return heights.empty() ? 0 : std::numeric_limits<uint32_t>::max() - 1 - heights[e.dst->id()];
}

// All nodes but SOURCE and SINK. REQUIRES: no control flow, no cycle; `heights` of this graph.
std::vector<Node*> RunOrder(const Graph& graph, const std::vector<uint32_t>& heights);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_RUN_ORDER_H_
