// MetaGraphDefs as bytes.
//
// Thread rule: the graph must not change meanwhile.
#ifndef TROUPE_ACTORS_TRAIN_META_GRAPH_H_
#define TROUPE_ACTORS_TRAIN_META_GRAPH_H_

#include <string>

#include "troupe/graph.h"
#include "troupe/status.h"
#include "troupe/train/saver.h"

namespace troupe::train {

// What WriteMetaGraph writes. INVALID_ARGUMENT for a graph of 2 GiB or more.
absl::StatusOr<std::string> MetaGraphBytes(const Graph& graph, const Saver* saver);

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_META_GRAPH_H_
