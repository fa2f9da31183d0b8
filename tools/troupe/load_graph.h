// The GRAPH argument of the commands.
#ifndef TROUPE_TOOLS_TROUPE_LOAD_GRAPH_H_
#define TROUPE_TOOLS_TROUPE_LOAD_GRAPH_H_

#include <string>

#include "troupe/status.h"

namespace troupe::proto {
class GraphDef;
}

namespace troupe::tool {

// Reads a GraphDef file, binary or text. INVALID_ARGUMENT calls what TensorFlow writes beside
// GraphDefs (a MetaGraphDef, a SavedModel, a file of 2 GiB and more) by its name. Nothing is
// printed.
absl::Status LoadGraph(const std::string& path, proto::GraphDef* def);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_LOAD_GRAPH_H_
