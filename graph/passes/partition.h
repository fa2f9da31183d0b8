// Cuts a placed graph into one part for each device.
//
// A value that crosses devices becomes a `_Send` on its device and a `_Recv` on the other: one pair
// for each value and receiving device, for any number of consumers. Small constants are copied
// instead. A control edge that crosses uses the pair of a value that goes the same way, or is
// carried by a constant of its own; control edges of one device into one node share a constant if
// no other node needs their sources there. A dead value is sent dead and is dead on the other side.
// Both ends have the same attrs tensor_name ("edge_<number>_<node>:<output>", unique in the graph),
// send_device, send_device_incarnation and recv_device, which make the key of the edge in a step.
// Loops across devices: see graph/passes/control_loops.h; references that are read on another
// device: graph/passes/reference_reads.h.
//
// Source of the semantics: white paper, section 3.2.2. Thread rule: the graph must be the caller's
// own.
#ifndef TROUPE_GRAPH_PASSES_PARTITION_H_
#define TROUPE_GRAPH_PASSES_PARTITION_H_

#include <memory>
#include <string>
#include <vector>

#include "graph/passes/cost_model.h"
#include "graph/passes/device_set.h"
#include "graph/passes/recv_schedule.h"
#include "graph/passes/still_wanted.h"

namespace troupe {

// On a `_Send` and its `_Recv`: the value stays with the sender until the Recv runs and asks for
// it. Other values are sent as soon as they are there.
inline constexpr char kGrantedAttr[] = "_granted";

struct PartitionOptions {
  // Delays Recvs that are not needed soon, by these costs and the sizes of tensors they know; null:
  // every Recv starts at once.
  const CostModel* schedule_recvs = nullptr;
  RecvScheduleOptions schedule;
  StillWanted wanted = nullptr;
};

struct GraphPart {
  std::string task;    // "/job:worker/replica:0/task:1"
  std::string device;  // full name
  std::unique_ptr<Graph> graph;
  int num_sends = 0, num_recvs = 0;
};

// The parts that have nodes: parts of one task stand together, tasks and devices come in the order
// of `devices`. `graph` is changed (control loops are added; control flow nodes may change their
// device); every node must have an assigned device of `devices`. INVALID_ARGUMENT with the node's
// address otherwise, for a reference that would have to cross, and for what ControlLoops::Add
// refuses; that of `wanted`. Linear in nodes and edges.
absl::StatusOr<std::vector<GraphPart>> PartitionGraph(Graph* graph, const DeviceSet& devices,
                                                      const PartitionOptions& options = {});
// As above, for a caller that needs the graph no longer: where one device has all of it, the graph
// becomes the part, and nothing is copied.
absl::StatusOr<std::vector<GraphPart>> PartitionGraph(std::unique_ptr<Graph> graph, const DeviceSet& devices,
                                                      const PartitionOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_PARTITION_H_
