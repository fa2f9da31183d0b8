// The memory of a step's graph, which has been pruned and improved (troupe/step_memory.h).
//
// Thread rule: the graph must not be changed meanwhile.
#ifndef TROUPE_GRAPH_PASSES_STEP_MEMORY_H_
#define TROUPE_GRAPH_PASSES_STEP_MEMORY_H_

#include <string>
#include <vector>

#include "graph/core/hash_map.h"
#include "troupe/step_memory.h"

namespace troupe {

// By node name, the shapes of its outputs.
using KnownShapes = HashMap<std::string, std::vector<PartialTensorShape>>;
KnownShapes InferKnownShapes(const Graph& graph);

// `known`: of nodes whose shape functions do not tell, fused ones mostly. INVALID_ARGUMENT for a
// cycle that is no loop.
absl::StatusOr<StepMemory> SimulateStep(const Graph& step, const KnownShapes& known, int64_t assumed_dimension);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_STEP_MEMORY_H_
