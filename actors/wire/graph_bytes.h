// How a graph becomes the bytes of a message, and comes back: those of a GraphDef, and where in the
// program each node was defined.
//
// Thread rule: any thread; the graph must not change meanwhile.
#ifndef TROUPE_ACTORS_WIRE_GRAPH_BYTES_H_
#define TROUPE_ACTORS_WIRE_GRAPH_BYTES_H_

#include <caf/all.hpp>
#include <string>

namespace troupe {

class Graph;
namespace proto {
class GraphDef;
}

namespace wire {

// Equal messages are equal bytes. False when there are too many.
bool ToBytes(const proto::GraphDef& def, std::string* bytes);

// kDone: the graph is placed. Which nodes its nodes ask to stand beside (colocation) is left out:
// these stand there already, or in another part.
enum class Placement { kOpen, kDone };
caf::error WriteGraph(caf::serializer& f, const Graph& graph, Placement placement);
// Adds what was written to `graph`, or nothing.
caf::error ReadGraph(caf::deserializer& f, Graph* graph);

}  // namespace wire
}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_GRAPH_BYTES_H_
