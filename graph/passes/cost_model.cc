#include "graph/passes/cost_model.h"

namespace troupe {

void CostModel::SetMeasured(std::string_view node, double mean_ns, std::string_view device_type) {
  measured_[device_type.empty() ? std::string(node) : StrCat(node, ";", device_type)] = mean_ns;
}

absl::Status CostModel::InferShapes(const Graph& graph, StillWanted wanted) {
  WantedCheck check(wanted);
  auto shapes = std::make_shared<ShapeRefiner>(&graph);
  if (const auto order = graph.TopologicalOrder(); order.ok()) {
    for (const Node* n : *order) {
      TROUPE_RETURN_IF_ERROR(check());
      shapes->AddNode(n).IgnoreError();
    }
  }
  graph_ = &graph;
  shapes_ = std::move(shapes);
  return absl::OkStatus();
}

double CostModel::ExecutionNs(const Node& node, const DeviceName& device) const {
  if (!measured_.empty()) {
    if (device.type) {
      const auto it = measured_.find(StrCat(node.name(), ";", *device.type));
      if (it != measured_.end()) return it->second;
    }
    const auto it = measured_.find(node.name());
    if (it != measured_.end()) return it->second;
  }
  double bytes = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (const NodeOut in = node.input(i); in.valid()) bytes += static_cast<double>(OutputBytes(in));
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    bytes += static_cast<double>(OutputBytes({const_cast<Node*>(&node), i}));
  }
  double speed = 1;
  if (device.type) {
    const auto it = options_.speed.find(*device.type);
    if (it != options_.speed.end() && it->second > 0) speed = it->second;
  }
  return options_.node_ns + bytes / (options_.bytes_per_ns * speed);
}

double CostModel::TransferNs(int64_t bytes, const DeviceName& from, const DeviceName& to) const {
  if (from == to) return 0;
  const Link& link = from.SameTask(to) ? options_.same_task : options_.other_task;
  return link.latency_ns + static_cast<double>(bytes) / link.bytes_per_ns;
}

int64_t CostModel::OutputBytes(NodeOut out) const {
  const int64_t size = static_cast<int64_t>(SizeOf(BaseType(out.dtype())));
  int64_t elements = -1;
  if (out.node->IsConstant()) {
    const AttrValue* v = out.node->attrs().Find("value");
    const Tensor* t = v == nullptr ? nullptr : v->As<Tensor>();
    if (t != nullptr && t->valid()) elements = t->num_elements();
  } else if (shapes_ != nullptr && out.node->graph() == graph_) {
    elements = shapes_->shape(out).num_elements();
  }
  const int64_t bytes = elements < 0 ? -1 : MultiplyWithoutOverflow(elements, size);
  return bytes < 0 ? options_.unknown_bytes : bytes;
}

}  // namespace troupe
