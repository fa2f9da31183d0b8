// Where nodes run, as the program decides: a function that a session asks when it places a graph
// that may stand on several devices.
//
//   absl::Status s = SetPlacementPolicy(*session, [](const PlacementQuestion& q) {
//     return q.node.name().starts_with("tower1/") ? q.devices.back() : std::string();
//   });
//
// What the graph asks for is kept: the function chooses among the devices that a node's request
// (Scope::WithDevice), its colocation and its kernels leave open. State stays where it was placed
// first.
//
// Thread rule: SetPlacementPolicy from any thread. The policy is called on a thread of the
// session's, one call at a time, while a signature is compiled; it must not call the session.
#ifndef TROUPE_PLACEMENT_H_
#define TROUPE_PLACEMENT_H_

#include <functional>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/status.h"

namespace TROUPE_EXPORT troupe {

class Session;

struct PlacementQuestion {
  // The first in topological order of those that must share a device.
  const Node& node;
  // What they may all have, by full name, at least two; the library's own choice would begin with
  // the first.
  const std::vector<std::string>& devices;
  // Of the nodes from which its inputs come, in their order; "": not placed so far.
  const std::vector<std::string>& inputs;
};

// The device, one of `devices`; "": the library chooses, as it does without a policy. An error, an
// exception and another device are the error of the call that compiles.
using PlacementPolicy = std::function<absl::StatusOr<std::string>(const PlacementQuestion& question)>;

// For signatures that are compiled from now on; null: no more. UNIMPLEMENTED for a session with a
// target: its server places.
absl::Status SetPlacementPolicy(Session& session, PlacementPolicy policy);

}  // namespace troupe

#endif  // TROUPE_PLACEMENT_H_
