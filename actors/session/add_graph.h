// Extends the graph of a session by a program's graph, which may have grown since it was given
// last.
//
// Thread rule: both graphs belong to the caller while it runs.
#ifndef TROUPE_ACTORS_SESSION_ADD_GRAPH_H_
#define TROUPE_ACTORS_SESSION_ADD_GRAPH_H_

#include "troupe/graph.h"

namespace troupe {

// Adds the nodes of `from` that `to` does not have, or none. ALREADY_EXISTS when a node of `to` has
// the name of one of `from` and differs from it in op, attrs, device or inputs; the message names
// the first difference. Where a node was defined is no difference.
absl::Status AddGraph(const Graph& from, Graph* to);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_ADD_GRAPH_H_
