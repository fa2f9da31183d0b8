// What a SavedModel must bring along so that its signatures work where it is read: the variables
// and tables that they use, less those that its init op sets.
//
// Thread rule: a pure function; the graph must not change meanwhile.
#ifndef TROUPE_ACTORS_TRAIN_MODEL_NEEDS_H_
#define TROUPE_ACTORS_TRAIN_MODEL_NEEDS_H_

#include <string>
#include <utility>
#include <vector>

#include "troupe/graph.h"
#include "troupe/train/saved_model.h"

namespace troupe::train {

struct ModelNeeds {
  struct One {
    const Node* node;     // of the handle or reference
    std::string used_by;  // "signature 'serving_default'"; "the collection 'variables'"
  };
  std::vector<One> variables, tables;
};

// Of all signatures and the init op; without signatures also of the global variables. Nodes that
// are not there are left out.
ModelNeeds NeedsOf(const Graph& graph, const SavedModelOptions& options);

// Container and name of the resource, the same for all nodes that share it.
std::pair<std::string, std::string> ResourceOf(const Node& node);

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_MODEL_NEEDS_H_
