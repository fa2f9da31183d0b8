#include "graph/passes/recv_schedule.h"

#include <algorithm>
#include <limits>

#include "graph/core/hash_map.h"

namespace troupe {

absl::StatusOr<RecvSchedule> RecvSchedule::Make(const Graph& graph, const DeviceSet& devices, const CostModel& costs,
                                                const RecvScheduleOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  RecvSchedule s(graph, devices, costs, options);
  s.ComputeTimes(order);
  return s;
}

double RecvSchedule::EdgeNs(const Edge& e) const {
  const int from = device_[e.src->id()], to = device_[e.dst->id()];
  if (from < 0 || to < 0 || from == to) return 0;
  const int64_t bytes = e.IsControl() ? 0 : costs_->OutputBytes({e.src, e.src_output});
  return costs_->TransferNs(bytes, devices_->name(from), devices_->name(to));
}

void RecvSchedule::ComputeTimes(const std::vector<Node*>& order) {
  const int n = graph_->num_node_ids();
  device_.assign(n, -1);
  cost_.assign(n, 0);
  asap_.assign(n, 0);
  conditional_.assign(n, false);
  HashMap<std::string, int> index;
  for (int d = 0; d < devices_->size(); ++d) index[devices_->info(d).name] = d;
  for (const Node* node : order) {
    if (!node->IsOp()) continue;
    const int id = node->id();
    const auto it = index.find(node->assigned_device());
    if (it != index.end()) device_[id] = it->second;
    // Above zero, so that times grow along every edge.
    if (device_[id] >= 0) cost_[id] = std::max(1.0, costs_->ExecutionNs(*node, devices_->name(device_[id])));
    conditional_[id] = node->IsControlFlow();
    for (const Edge* e : node->in_edges()) {
      if (!e->src->IsOp() || e->src->IsNextIteration()) continue;
      asap_[id] = std::max(asap_[id], asap_[e->src->id()] + cost_[e->src->id()] + EdgeNs(*e));
      conditional_[id] = conditional_[id] || conditional_[e->src->id()];
    }
    makespan_ = std::max(makespan_, asap_[id] + cost_[id]);
  }
  alap_.assign(n, 0);
  gates_.resize(devices_->size());
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node* node = *it;
    if (!node->IsOp()) continue;
    const int id = node->id();
    double finish = makespan_;
    if (!node->IsNextIteration()) {
      for (const Edge* e : node->out_edges()) {
        if (e->dst->IsOp()) finish = std::min(finish, alap_[e->dst->id()] - EdgeNs(*e));
      }
    }
    alap_[id] = finish - cost_[id];
    // A constant is there at once, whatever its latest start is.
    const bool waits =
        std::any_of(node->in_edges().begin(), node->in_edges().end(), [](const Edge* e) { return e->src->IsOp(); });
    if (!conditional_[id] && device_[id] >= 0 && waits) gates_[device_[id]].emplace_back(finish, node);
  }
  for (auto& list : gates_) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first < b.first : a.second->id() < b.second->id();
    });
  }
}

const Node* RecvSchedule::Gate(NodeOut value, int to) const {
  const int from = device_[value.node->id()];
  if (from < 0 || conditional_[value.node->id()] || costs_->OutputBytes(value) < options_.min_bytes) return nullptr;
  double needed = std::numeric_limits<double>::infinity();
  for (const Edge* e : value.node->out_edges()) {
    if (e->src_output == value.index && e->dst->IsOp() && device_[e->dst->id()] == to) {
      needed = std::min(needed, alap_[e->dst->id()]);
    }
  }
  const double transfer = costs_->TransferNs(costs_->OutputBytes(value), devices_->name(from), devices_->name(to));
  const double latest = needed - transfer - options_.margin * makespan_;
  const double possible = asap_[value.node->id()] + cost_[value.node->id()];
  const auto& list = gates_[to];
  auto it =
      std::upper_bound(list.begin(), list.end(), latest, [](double t, const auto& gate) { return t < gate.first; });
  if (it == list.begin()) return nullptr;
  --it;
  // One that runs before the value can come at all would hold nothing back.
  return asap_[it->second->id()] + cost_[it->second->id()] > possible ? it->second : nullptr;
}

}  // namespace troupe
