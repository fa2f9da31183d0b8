// Makes nodes that come after an update of a reference variable read the updated value, although
// they read it through an Identity.
//
// Problem: TensorFlow's `v/read` is an Identity of a reference, which hands on the variable's
// buffer and not what was in it. A node that reads `v/read` and waits for an update of v by a
// control edge (an ExponentialMovingAverage behind a train op) sees the updated value there,
// whether v/read ran before the update or after it. Here an Identity gives a snapshot, which no
// update changes.
//
// Contract: consider a consumer of a value that comes from a reference through Identity nodes. If
// the consumer runs after some update of the variable that the Identity does not run after, the
// consumer reads the variable when it runs itself, with the Identity's control inputs as its own.
// So wherever TensorFlow's value is certain, it is the same here. All other consumers keep the
// snapshot: where neither the update nor the consumer waits for the other, TensorFlow's value
// depends on timing, and Troupe's does not.
//
// A node after a loop comes after an update in the loop if the values that leave the last iteration
// wait for that update.
//
// Not looked through: other ops that hand on their input's buffer (Reshape, Switch, Enter, ...),
// and, for a consumer in the body, the edge from one iteration of a loop to the next.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_LATE_READS_H_
#define TROUPE_GRAPH_PASSES_LATE_READS_H_

#include "graph/passes/still_wanted.h"
#include "troupe/graph.h"

namespace troupe {

// Changes the graph of a signature in place, before nodes are folded or merged; returns how many
// inputs read later than they did. An Identity that loses its last consumer by it is removed. The
// cost is linear in the graph, once for each 64 updates of variables that are read so, and in the
// bodies of the loops that update, once for each such loop around a node; nothing without updates.
// INVALID_ARGUMENT for a cycle without NextIteration; that of `wanted`.
absl::StatusOr<int> ReadAfterUpdates(Graph* graph, StillWanted wanted = nullptr);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_LATE_READS_H_
