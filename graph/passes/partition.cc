#include "graph/passes/partition.h"

#include <algorithm>
#include <map>
#include <optional>

#include "graph/core/hash_map.h"
#include "graph/passes/control_loops.h"

namespace troupe {
namespace {

constexpr size_t kReplicatedBytes = 1024;

class Partitioner {
 public:
  Partitioner(Graph* graph, const DeviceSet& devices, const PartitionOptions& options)
      : graph_(*graph), devices_(devices), options_(options), wanted_(options.wanted) {}

  absl::StatusOr<std::vector<GraphPart>> Run() {
    for (int d = 0; d < devices_.size(); ++d) device_index_[devices_.info(d).name] = d;
    for (const Node* n : graph_.op_nodes()) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      if (!device_index_.contains(n->assigned_device())) {
        return n->At(n->assigned_device().empty()
                         ? InvalidArgument("the node has no device: a graph must be placed before it is cut")
                         : InvalidArgument("there is no such device; the devices are: ", devices_.DebugString()));
      }
    }
    absl::StatusOr<ControlLoops> loops = ControlLoops::Add(&graph_);
    TROUPE_RETURN_IF_ERROR(wanted_.Now());
    if (!loops.ok()) return loops.status();
    loops_.emplace(*std::move(loops));
    if (options_.schedule_recvs != nullptr) {
      absl::StatusOr<RecvSchedule> schedule =
          RecvSchedule::Make(graph_, devices_, *options_.schedule_recvs, options_.schedule);
      if (!schedule.ok()) return schedule.status();
      schedule_.emplace(*std::move(schedule));
    }
    TROUPE_RETURN_IF_ERROR(CopyNodes());
    // Values first: control edges then travel with them.
    for (const Node* n : nodes_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      for (const Edge* e : SortedInEdges(*n)) {
        if (!e->IsControl()) TROUPE_RETURN_IF_ERROR(Connect(*e));
      }
    }
    for (const Node* n : nodes_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      TROUPE_RETURN_IF_ERROR(ConnectControls(*n));
    }
    return Collect();
  }

 private:
  // An output of a node (kControlSlot: its end) and the device that it goes to.
  using PairKey = std::pair<std::pair<int, int>, int>;

  absl::Status CopyNodes() {
    nodes_ = graph_.op_nodes();
    device_.assign(graph_.num_node_ids(), -1);
    copies_.assign(graph_.num_node_ids(), nullptr);
    parts_.resize(devices_.size());
    std::vector<int> counts(devices_.size(), 0);
    for (const Node* n : nodes_) counts[device_[n->id()] = device_index_[n->assigned_device()]] += 1;
    for (int d = 0; d < devices_.size(); ++d) {
      if (counts[d] == 0) continue;
      parts_[d].task = devices_.name(d).TaskName();
      parts_[d].device = devices_.info(d).name;
      parts_[d].graph = std::make_unique<Graph>(&graph_.ops());
      parts_[d].graph->Reserve(counts[d]);
      parts_[d].graph->producer = graph_.producer;
      parts_[d].graph->min_consumer = graph_.min_consumer;
      parts_[d].graph->set_library(graph_.shared_library());
    }
    for (const Node* n : nodes_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      TROUPE_ASSIGN_OR_RETURN(copies_[n->id()], parts_[device_[n->id()]].graph->CopyNode(*n, n->name()));
    }
    return absl::OkStatus();
  }

  // Data edges by input, then control edges by source: the parts do not depend on how the graph was
  // built.
  static std::vector<const Edge*> SortedInEdges(const Node& n) {
    std::vector<const Edge*> edges;
    for (const Edge* e : n.in_edges()) {
      if (e->src->IsOp()) edges.push_back(e);
    }
    std::sort(edges.begin(), edges.end(), [](const Edge* a, const Edge* b) {
      return a->IsControl() != b->IsControl() ? b->IsControl()
             : a->IsControl()                 ? a->src->id() < b->src->id()
                                              : a->dst_input < b->dst_input;
    });
    return edges;
  }

  absl::Status Connect(const Edge& e) {
    const int from = device_[e.src->id()], to = device_[e.dst->id()];
    Node* dst = copies_[e.dst->id()];
    Graph& part = *parts_[to].graph;
    if (from == to) {
      if (!e.IsControl()) return part.AddEdge(copies_[e.src->id()], e.src_output, dst, e.dst_input).status();
      part.AddControlEdgeUnchecked(copies_[e.src->id()], dst);
      return absl::OkStatus();
    }
    if (!e.IsControl() && IsRef(e.dst->input_type(e.dst_input))) {
      return e.dst->At(InvalidArgument("the node takes a reference from '", e.src->name(), "', which is on ",
                                       devices_.info(from).name, ": a reference cannot go to another device"));
    }
    if (IsFreeConstant(*e.src)) {
      // There is nothing to wait for and little to hold: a copy saves a message in every step.
      if (e.IsControl()) return absl::OkStatus();
      TROUPE_ASSIGN_OR_RETURN(Node* const replica, Replica(*e.src, to));
      return part.AddEdge(replica, 0, dst, e.dst_input).status();
    }
    TROUPE_ASSIGN_OR_RETURN(Node* const recv, Recv(e, from, to));
    if (!e.IsControl()) return part.AddEdge(recv, 0, dst, e.dst_input).status();
    part.AddControlEdgeUnchecked(recv, dst);
    return absl::OkStatus();
  }

  // The control edges into `n`. Those that come from one device and for which nothing else crosses
  // are joined there: one message, however many they are.
  absl::Status ConnectControls(const Node& n) {
    const int to = device_[n.id()];
    std::map<std::pair<int, const Node*>, std::vector<const Edge*>>
        joined;  // by device, and what the Recv must wait for
    for (const Edge* e : SortedInEdges(n)) {
      if (!e->IsControl()) continue;
      const int from = device_[e->src->id()];
      if (from == to || IsFreeConstant(*e->src) || !CrossesBy(*e, to)) {
        TROUPE_RETURN_IF_ERROR(Connect(*e));
      } else {
        joined[{from, loops_->Pivot(*e->src, devices_.info(to).name)}].push_back(e);
      }
    }
    for (const auto& [where, edges] : joined) {
      const Edge& first = *edges[0];
      if (edges.size() == 1) {
        TROUPE_RETURN_IF_ERROR(Connect(first));
        continue;
      }
      TROUPE_ASSIGN_OR_RETURN(const NodeOut carrier, NewCarrier(*first.src, where.first));
      for (const Edge* e : edges)
        parts_[where.first].graph->AddControlEdgeUnchecked(copies_[e->src->id()], carrier.node);
      TROUPE_ASSIGN_OR_RETURN(Node* const recv, NewPair(first, carrier, where.first, to));
      parts_[to].graph->AddControlEdgeUnchecked(recv, copies_[n.id()]);
    }
    return absl::OkStatus();
  }

  // True when nothing but this control edge takes its source to that device, as far as a short look
  // says.
  bool CrossesBy(const Edge& edge, int to) const {
    constexpr size_t kLookedAt = 16;
    const EdgeList& edges = edge.src->out_edges();
    return edges.size() <= kLookedAt && std::none_of(edges.begin(), edges.end(), [&](const Edge* e) {
             return e != &edge && e->dst->IsOp() && device_[e->dst->id()] == to;
           });
  }

  // A small constant that waits for nothing.
  static bool IsFreeConstant(const Node& n) {
    if (!n.IsConstant() || IsRef(n.output_type(0))) return false;
    const AttrValue* v = n.attrs().Find("value");
    const Tensor* t = v == nullptr ? nullptr : v->As<Tensor>();
    return t != nullptr && t->valid() && t->bytes() <= kReplicatedBytes &&
           std::none_of(n.in_edges().begin(), n.in_edges().end(), [](const Edge* e) { return e->src->IsOp(); });
  }

  absl::StatusOr<Node*> Replica(const Node& constant, int device) {
    Node*& replica = pairs_[PairKey{{constant.id(), 0}, device}];
    if (replica == nullptr) {
      TROUPE_ASSIGN_OR_RETURN(replica, AddNode(constant, constant.op().name, device, constant.attrs()));
    }
    return replica;
  }

  // The Recv on `to` of what crosses by `e`; made when it is asked for the first time.
  absl::StatusOr<Node*> Recv(const Edge& e, int from, int to) {
    const PairKey key{{e.src->id(), e.src_output}, to};
    if (const auto it = pairs_.find(key); it != pairs_.end()) return it->second;
    if (e.IsControl() && !e.src->IsSwitch()) {
      // Of a Switch a value may be dead although the node ran.
      for (int i = 0; i < e.src->num_outputs(); ++i) {
        const auto it = pairs_.find(PairKey{{e.src->id(), i}, to});
        if (it == pairs_.end()) continue;
        Node* const made = it->second;
        return pairs_[key] = made;
      }
    }
    NodeOut value{copies_[e.src->id()], e.src_output};
    if (e.IsControl()) {
      TROUPE_ASSIGN_OR_RETURN(value, Carrier(*e.src, from));
    }
    TROUPE_ASSIGN_OR_RETURN(Node* const recv, NewPair(e, value, from, to));
    return pairs_[key] = recv;
  }

  // A _Send of `value`, and the _Recv, for what crosses by `e`.
  absl::StatusOr<Node*> NewPair(const Edge& e, NodeOut value, int from, int to) {
    const DType type = BaseType(value.dtype());
    AttrMap attrs;
    attrs.Set("tensor_name", StrCat("edge_", e.id, "_", e.IsControl() ? "^" : "", e.src->name(),
                                    e.IsControl() ? "" : StrCat(":", e.src_output)));
    attrs.Set("send_device", devices_.info(from).name);
    attrs.Set("send_device_incarnation", static_cast<int64_t>(devices_.info(from).incarnation));
    attrs.Set("recv_device", devices_.info(to).name);
    attrs.Set("client_terminated", false);
    const Node* gate = schedule_ && !e.IsControl() ? schedule_->Gate({e.src, e.src_output}, to) : nullptr;
    if (gate != nullptr) attrs.Set(kGrantedAttr, true);

    AttrMap send_attrs = attrs;
    send_attrs.Set("T", type);
    TROUPE_ASSIGN_OR_RETURN(Node* const send, AddNode(*e.src, "_Send", from, std::move(send_attrs)));
    TROUPE_RETURN_IF_ERROR(parts_[from].graph->AddEdge(value, send, 0).status());
    ++parts_[from].num_sends;

    attrs.Set("tensor_type", type);
    TROUPE_ASSIGN_OR_RETURN(Node* const recv, AddNode(*e.src, "_Recv", to, std::move(attrs)));
    ++parts_[to].num_recvs;
    if (const Node* pivot = loops_->Pivot(*e.src, devices_.info(to).name)) {
      parts_[to].graph->AddControlEdge(copies_[pivot->id()], recv);
    }
    if (gate != nullptr) parts_[to].graph->AddControlEdge(copies_[gate->id()], recv);
    return recv;
  }

  // A constant that is there when `src` has run: what a control edge sends.
  absl::StatusOr<NodeOut> Carrier(const Node& src, int device) {
    NodeOut& carrier = carriers_[&src];
    if (carrier.node == nullptr) {
      TROUPE_ASSIGN_OR_RETURN(carrier, NewCarrier(src, device));
      parts_[device].graph->AddControlEdge(copies_[src.id()], carrier.node);
    }
    return carrier;
  }

  absl::StatusOr<NodeOut> NewCarrier(const Node& near, int device) {
    TROUPE_ASSIGN_OR_RETURN(
        Node* const carrier,
        AddNode(near, "Const", device, {{"dtype", DType::kFloat}, {"value", Tensor(DType::kFloat, TensorShape({0}))}}));
    return NodeOut{carrier, 0};
  }

  // A node of the cut at `near`, with a name that no node of any part has.
  absl::StatusOr<Node*> AddNode(const Node& near, std::string_view op, int device, AttrMap attrs) {
    std::string name;
    do {
      name = StrCat(near.name(), "/_S", ++names_);
    } while (graph_.Find(name) != nullptr);
    TROUPE_ASSIGN_OR_RETURN(Node* const n, parts_[device].graph->AddNode(name, op, std::move(attrs)));
    n->set_assigned_device(devices_.info(device).name);
    n->set_location(near.location());
    return n;
  }

  // Parts by task, in the order in which the tasks' first devices stand.
  std::vector<GraphPart> Collect() {
    std::vector<GraphPart> result;
    for (int d = 0; d < devices_.size(); ++d) {
      if (parts_[d].graph == nullptr) continue;
      const std::string task = parts_[d].task;
      for (int other = d; other < devices_.size(); ++other) {
        if (parts_[other].graph != nullptr && parts_[other].task == task) {
          result.push_back(std::move(parts_[other]));
        }
      }
    }
    return result;
  }

  Graph& graph_;
  const DeviceSet& devices_;
  const PartitionOptions& options_;
  WantedCheck wanted_;
  std::optional<ControlLoops> loops_;
  std::optional<RecvSchedule> schedule_;
  HashMap<std::string, int> device_index_;
  std::vector<Node*> nodes_;
  std::vector<int> device_;  // by node id, as the next
  std::vector<Node*> copies_;
  std::vector<GraphPart> parts_;   // by device
  HashMap<PairKey, Node*> pairs_;  // the Recvs
  HashMap<const Node*, NodeOut> carriers_;
  int names_ = 0;
};

// The device that every node is on; -1 when there are several, or one that is not known.
int OnlyDevice(const Graph& graph, const DeviceSet& devices) {
  const std::string* name = nullptr;
  for (int id = 0; id < graph.num_node_ids(); ++id) {
    const Node* n = graph.node(id);
    if (n == nullptr || !n->IsOp()) continue;
    if (name == nullptr) name = &n->assigned_device();
    if (n->assigned_device() != *name) return -1;
  }
  for (int d = 0; d < devices.size() && name != nullptr; ++d) {
    if (devices.info(d).name == *name) return d;
  }
  return -1;
}

}  // namespace

absl::StatusOr<std::vector<GraphPart>> PartitionGraph(Graph* graph, const DeviceSet& devices,
                                                      const PartitionOptions& options) {
  return Partitioner(graph, devices, options).Run();
}

absl::StatusOr<std::vector<GraphPart>> PartitionGraph(std::unique_ptr<Graph> graph, const DeviceSet& devices,
                                                      const PartitionOptions& options) {
  const int device = OnlyDevice(*graph, devices);
  if (device < 0) return PartitionGraph(graph.get(), devices, options);
  // A part has no edges of SOURCE and SINK.
  for (Node* end : {graph->source(), graph->sink()}) {
    while (!end->out_edges().empty()) graph->RemoveEdge(end->out_edges().back());
    while (!end->in_edges().empty()) graph->RemoveEdge(end->in_edges().back());
  }
  std::vector<GraphPart> parts(1);
  parts[0].task = devices.name(device).TaskName();
  parts[0].device = devices.info(device).name;
  parts[0].graph = std::move(graph);
  return parts;
}

}  // namespace troupe
