// MetaGraphDefs as bytes.
//
// Thread rule: the graph must not change meanwhile.
#ifndef TROUPE_ACTORS_TRAIN_META_GRAPH_H_
#define TROUPE_ACTORS_TRAIN_META_GRAPH_H_

#include <string>

#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/status.h"

namespace troupe::train {

class TROUPE_EXPORT Saver;

// What WriteMetaGraph writes. INVALID_ARGUMENT for a graph of 2 GiB or more.
absl::StatusOr<std::string> MetaGraphBytes(const Graph& graph, const Saver* saver);

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_META_GRAPH_H_
