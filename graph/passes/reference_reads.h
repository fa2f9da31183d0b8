// Makes nodes on other devices read a reference variable on the variable's own device.
//
// Problem: a node that takes the value of a reference reads it when it runs, which is when all its
// inputs are there, those of control edges too: `Identity(v, ^update)` sees the update. A reference
// cannot leave its device, so the value must be read for the node there; a _Send that reads it as
// soon as there is a reference would read too early.
//
// Contract: every such node gets the value from an Identity on the variable's device, in the same
// frame, that waits for all inputs that the node waits for; nodes that wait for the same inputs
// share it. A node that waits for nothing else reads through a plain _Send, as any other value
// crosses. The node gets the value that it would read if it were on the variable's device. This
// adds no cycle: the Identity waits only for nodes that the node itself waits for.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_REFERENCE_READS_H_
#define TROUPE_GRAPH_PASSES_REFERENCE_READS_H_

#include "troupe/graph.h"

namespace troupe {

// For a placed graph, in which control flow nodes are where they stay. Errors are those of the
// graph's own operations.
absl::Status ReadReferencesAtHome(Graph* graph);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_REFERENCE_READS_H_
