// Reads of references by nodes that are on another device than the variable.
//
// Problem: a node that takes the value of a reference reads it when it runs, which is when all its
// inputs are there, those of control edges too: `Identity(v, ^update)` sees the update. A reference
// cannot leave its device, so the value must be read for the node there; a _Send that reads it as
// soon as there is a reference would read too early.
//
// Contract: every such node gets the value from an Identity on the variable's device that waits for
// whatever the node waits for, in the same frame; nodes that wait for the same share it. A node
// that waits for nothing else reads through a plain _Send, as any other value crosses. The value is
// that which the node would read if it were on the variable's device. No cycle can come of it: what
// the Identity waits for, the node has waited for before.
#ifndef TROUPE_GRAPH_PASSES_REFERENCE_READS_H_
#define TROUPE_GRAPH_PASSES_REFERENCE_READS_H_

#include "troupe/graph.h"

namespace troupe {

// For a placed graph, in which control flow nodes are where they stay. Errors are those of the
// graph's own operations.
absl::Status ReadReferencesAtHome(Graph* graph);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_REFERENCE_READS_H_
