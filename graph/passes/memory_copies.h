// Puts copies where a value must change the memory that it is in.
//
// On a device with memory of its own, a kernel takes and gives tensors of that memory, but for the
// arguments that it declares as HostMemory: shapes, axes, predicates. Where a value that is made in
// one memory is taken in the other, a node "_CopyToHost" or "_CopyToDevice" stands between: one for
// each value and memory, however many take it. What comes from other parts and goes there,
// arguments, results and constants are in host memory.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_MEMORY_COPIES_H_
#define TROUPE_GRAPH_PASSES_MEMORY_COPIES_H_

#include <string>

#include "graph/passes/device_set.h"

namespace troupe {

// `part`: all nodes are on one device of type `device_type`, whose memory is not the host's.
// Returns the number of copies. Linear in nodes and edges.
absl::StatusOr<int> AddMemoryCopies(Graph* part, const KernelLookup& kernels, const std::string& device_type);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_MEMORY_COPIES_H_
