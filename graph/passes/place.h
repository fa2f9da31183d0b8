// Placement: a device for every node.
//
// Groups of nodes that must share a device, and the devices each may have, come from
// graph/passes/colocation.h. Where a group may have several, the first device with the best kernel
// takes it; or, with `use_cost_model`, the white paper's greedy simulation (section 3.2.1): nodes
// are taken in topological order and each goes where it would finish first, given when the device
// is free and when its inputs would have arrived there.
//
// Where nodes have no request, five rules save transfers: nodes that need only the shape of their
// input stay with it; fetches stay with the fetched node; nodes without inputs go where all their
// consumers are; nodes that only wait for others go where most of these are; and the simulation
// leaves readers of a reference with the variable.
//
// A policy of the program's (troupe/placement.h) is asked first.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_PLACE_H_
#define TROUPE_GRAPH_PASSES_PLACE_H_

#include <functional>
#include <string>

#include "graph/core/hash_map.h"
#include "graph/passes/cost_model.h"
#include "graph/passes/device_set.h"
#include "graph/passes/session_groups.h"
#include "graph/passes/still_wanted.h"
#include "troupe/placement.h"

namespace troupe {

struct PlaceOptions {
  // A request for a device type or number that cannot be fulfilled is dropped (the CPU comes first
  // then); jobs, replicas and tasks are always honoured.
  bool allow_soft_placement = false;
  bool use_cost_model = false;
  // The costs that the simulation uses; null: estimates from the graph's shapes.
  const CostModel* cost_model = nullptr;
  // The devices of stateful nodes, by name, that were placed before. These nodes stay there; new
  // ones are added.
  HashMap<std::string, std::string>* stateful_devices = nullptr;
  // With stateful_devices: the groups of the session's graph, of which this one is a part. A
  // stateful node without a device is placed on a device that all nodes of its group can have.
  SessionGroups* session = nullptr;
  // Asked for each group that may have several devices; may be empty.
  PlacementPolicy policy;
  // Called with each node once it has its device.
  std::function<void(const Node&)> log;
  StillWanted wanted = nullptr;
};

// Sets every node's assigned_device(). Nodes that have one keep it. On an error no node is changed.
// Errors: those of ColocationGroups::Build, INVALID_ARGUMENT for a cycle without NextIteration,
// that of `wanted`, and what the policy makes of it.
absl::Status PlaceGraph(Graph* graph, const DeviceSet& devices, const KernelLookup& kernels,
                        const PlaceOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_PLACE_H_
