// One node with the values that it had, as files: for a node that failed a check, to be looked at
// and run again by the program `troupe`.
//
//   graph.pbtxt   the node under its own name and with its attrs; input I is the placeholder
//                 "input_I", a variable "input_I" that the node "init" sets to a placeholder, or,
//                 of a type without numbers, a constant
//   I.npy         the value of input I, or of the variable that it names
//   replay.sh     runs the node on these values: "sh FOLDER/replay.sh", with further flags of
//                 `troupe run` behind it
//
// A node with an input that names neither value nor variable (a queue, say) has no replay.sh.
//
// Thread rule: thread safe; writes files, so it blocks.
#ifndef TROUPE_ACTORS_EXECUTOR_NODE_DUMP_H_
#define TROUPE_ACTORS_EXECUTOR_NODE_DUMP_H_

#include <string>

#include "absl/types/span.h"
#include "troupe/node_properties.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {

// Writes them into a new folder below `folder`, whose name is made of `when` and the node's name,
// and returns its path.
absl::StatusOr<std::string> DumpNode(const NodeProperties& node, absl::Span<const Tensor> inputs,
                                     const std::string& folder, const std::string& when);

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_NODE_DUMP_H_
