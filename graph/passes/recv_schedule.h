// Decides when Recvs should start. If all start as soon as possible, the receiver's memory fills
// with tensors that are not needed yet (white paper, section 5.2).
//
// From estimated times each node has an earliest start (ASAP) and a latest one that does not delay
// the end of the step (ALAP). A Recv of many bytes whose value could come long before it is needed
// is held back until a certain node of the receiver's device has run (its gate): the node whose
// latest finish leaves just enough time for the transfer.
//
// Why this cannot make a cycle: along every edge the latest start grows, and it grows from a gate
// to the consumers of the Recv it holds back.
//
// Thread rule: const methods may be called from several threads while no thread changes the graph.
#ifndef TROUPE_GRAPH_PASSES_RECV_SCHEDULE_H_
#define TROUPE_GRAPH_PASSES_RECV_SCHEDULE_H_

#include <string>
#include <utility>
#include <vector>

#include "graph/core/hash_map.h"
#include "graph/passes/cost_model.h"
#include "graph/passes/device_set.h"

namespace troupe {

struct RecvScheduleOptions {
  int64_t min_bytes = 64 << 10;  // smaller tensors come when they come
  double margin = 0.05;          // of the whole step's time: how much earlier than needed a transfer starts
};

class RecvSchedule {
 public:
  // INVALID_ARGUMENT for a cycle without NextIteration. `graph` is placed on `devices`; both must
  // outlive this, and `costs` too.
  static absl::StatusOr<RecvSchedule> Make(const Graph& graph, const DeviceSet& devices, const CostModel& costs,
                                           const RecvScheduleOptions& options);

  // The node of device `to` that the Recv there of `value` should wait for; null when it may start
  // at once. Nodes in loops or on branches are neither held back nor gates.
  const Node* Gate(NodeOut value, int to) const;

 private:
  RecvSchedule(const Graph& graph, const DeviceSet& devices, const CostModel& costs, const RecvScheduleOptions& options)
      : graph_(&graph), devices_(&devices), costs_(&costs), options_(options) {}
  void ComputeTimes(const std::vector<Node*>& order);
  double EdgeNs(const Edge& e) const;

  const Graph* graph_;
  const DeviceSet* devices_;
  const CostModel* costs_;
  RecvScheduleOptions options_;
  std::vector<int> device_;  // by node id, as the next four
  std::vector<double> cost_, asap_, alap_;
  std::vector<char> conditional_;
  double makespan_ = 0;
  // By device: (latest finish, node) of the nodes that may be gates, sorted.
  std::vector<std::vector<std::pair<double, const Node*>>> gates_;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_RECV_SCHEDULE_H_
