// What is known of each node of a part: its kernel, what it waits for and whom it feeds.
#include <algorithm>

#include "actors/executor/part_compiler.h"
#include "graph/core/hash_map.h"
#include "graph/passes/partition.h"
#include "graph/passes/run_order.h"
#include "kernels/control/edge_key.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// True when the node's output is its input, so that no kernel has to be called.
bool HandsOn(const Node& n) {
  if (n.num_inputs() != 1 || n.num_outputs() != 1) return false;
  return n.IsEnter() || n.IsExit() || n.IsNextIteration() || n.op().control_flow == ControlFlow::kLoopCond ||
         n.op().Has(OpTrait::kForwardsInput);
}

// A kernel that its device runs by itself.
struct DeviceKernel {
  Device* device;
  ComputeFn compute;
  std::shared_ptr<void> state;
};

absl::Status RunOnDevice(KernelContext& ctx) {
  auto* const kernel = static_cast<DeviceKernel*>(ctx.state());
  ctx.set_state(kernel->state.get());
  absl::Status status = kernel->device->Run(kernel->compute, ctx);
  ctx.set_state(kernel);  // one that waits is run again
  return status;
}

}  // namespace

absl::Status PartCompiler::PrepareNode(size_t i) {
  const Node& n = *order_[i];
  CompiledNode& c = part_->nodes[i];
  part_->info.emplace_back(n, device_);
  part_->properties.push_back(n.properties());
  c.num_inputs = static_cast<uint32_t>(n.num_inputs());
  c.num_outputs = static_cast<uint16_t>(n.num_outputs());
  c.flow = n.control_flow();
  const auto enter = enter_frame_.find(n.id());
  c.frame = static_cast<uint16_t>(enter != enter_frame_.end() ? enter->second : frame_of_[n.id()]);
  c.dead_aware = n.IsSend();
  // Here, where the node has come into the cache.
  if (HasState(n)) with_state_.push_back(static_cast<uint32_t>(i));
  part_->max_outputs = std::max<uint32_t>(part_->max_outputs, c.num_outputs);
  if (n.IsEnter()) {
    auto constant = n.Attr<bool>("is_constant");
    c.constant_enter = constant.ok() && *constant;
  }
  if (n.IsExit()) {
    std::vector<uint32_t>& exits = part_->frames[frame_of_[n.id()]].exits;
    c.index = static_cast<uint32_t>(exits.size());
    exits.push_back(static_cast<uint32_t>(i));
  }
  const bool argument = n.op().Has(OpTrait::kArgument), result = n.op().Has(OpTrait::kResult);
  if (argument || result) {
    absl::StatusOr<int64_t> index = n.Attr<int64_t>("index");
    if (!index.ok()) return n.At(index.status());
    if (*index > (1 << 24)) return n.At(InvalidArgument("index ", *index, " is out of range"));
    c.index = static_cast<uint32_t>(*index);
    c.handling = argument ? Handling::kArgument : Handling::kResult;
    uint32_t& count = argument ? part_->num_arguments : part_->num_results;
    count = std::max(count, c.index + 1);
    return absl::OkStatus();
  }
  if (n.IsSend() || n.IsRecv()) TROUPE_RETURN_IF_ERROR(NameEnd(i));
  if (n.IsConstant()) {
    const AttrValue* v = n.attrs().Find("value");
    const Tensor* t = v == nullptr ? nullptr : v->As<Tensor>();
    // It is not run, but there must be a device that could. One whose value is not of its
    // declared type is left to its kernel, which says so.
    if (t != nullptr && t->valid() && t->dtype() == n.output_type(0) && finder_.Find(n) != nullptr) {
      c.handling = Handling::kConstant;
      c.index = static_cast<uint32_t>(part_->constants.size());
      part_->constants.push_back(*t);
      return absl::OkStatus();
    }
  }
  return PrepareKernelOf(i);
}

namespace {

// Whether another device waits for the node's value, as it is or in another shape.
bool IsSent(const Node& n, int depth = 0) {
  constexpr int kDeepest = 4;
  for (const Edge* e : n.out_edges()) {
    if (e->IsControl() || !e->dst->IsOp()) continue;
    const std::string& op = e->dst->op().name;
    if (e->dst->IsSend()) return true;
    if (depth < kDeepest && (op == "Identity" || op == "Reshape" || op == "Cast") && IsSent(*e->dst, depth + 1))
      return true;
  }
  return false;
}

}  // namespace

absl::Status PartCompiler::NameEnd(size_t i) {
  const Node& n = *order_[i];
  absl::StatusOr<std::string> key = EdgeKey(n);
  if (!key.ok()) return n.At(key.status());
  if (n.attrs().Find(kGrantedAttr) != nullptr) {
    (n.IsSend() ? part_->granted_sends : part_->granted_recvs).insert(*key);
  }
  (n.IsSend() ? part_->sends : part_->recvs).emplace_back(*std::move(key), static_cast<uint32_t>(i));
  return absl::OkStatus();
}

absl::Status PartCompiler::PrepareKernelOf(size_t i) {
  const Node& n = *order_[i];
  CompiledNode& c = part_->nodes[i];
  TROUPE_ASSIGN_OR_RETURN(PreparedKernel kernel, PrepareKernel(n, device_, session_, &finder_));
  c.compute = kernel.compute;
  c.state = kernel.state.get();
  c.measured = kernel.cost == Cost::kMeasured;
  const bool hands_on = kernel.compute_async == nullptr && HandsOn(n);
  if (!kernel.library && !hands_on) {
    part_->has_user_kernels = true;
    part_->user_kernels.resize(order_.size());
    part_->user_kernels[i] = true;
  }
  if (c.measured && IsSent(n)) {
    part_->sent.resize(order_.size());
    part_->sent[i] = true;
  }
  part_->prints |= n.op().name == "Print" || n.op().name == "PrintV2";
  if (kernel.compute_async != nullptr) {
    c.handling = Handling::kAsyncKernel;
    part_->async.resize(order_.size());
    part_->async[i] = kernel.compute_async;
  } else if (c.num_inputs == 0 && c.num_outputs == 0 && !n.op().stateful() && kernel.state == nullptr && !c.measured) {
    c.handling = Handling::kNothing;
  } else if (hands_on) {
    c.handling = Handling::kForward;
  } else if (c.flow == ControlFlow::kSwitch && c.num_inputs == 2 && c.num_outputs == 2) {
    c.handling = Handling::kSwitch;
  } else if (c.flow == ControlFlow::kMerge && c.num_outputs == 2) {
    c.handling = Handling::kMerge;
  }
  if (part_->syncs && kernel.compute != nullptr && c.handling != Handling::kNothing) {
    auto run = std::make_shared<DeviceKernel>(DeviceKernel{device_, kernel.compute, std::move(kernel.state)});
    c.compute = RunOnDevice;
    c.state = run.get();
    kernel.state = std::move(run);
  }
  if (kernel.state != nullptr) part_->states.push_back(std::move(kernel.state));
  return absl::OkStatus();
}

absl::Status PartCompiler::ConnectNode(size_t i) {
  TROUPE_RETURN_IF_ERROR(CountInputs(i));
  ConnectOutputs(i);
  return absl::OkStatus();
}

absl::Status PartCompiler::CountInputs(size_t i) {
  const Node& n = *order_[i];
  CompiledNode& c = part_->nodes[i];
  for (int k = 0; k < n.num_inputs(); ++k) {
    if (n.input_edge(k) == nullptr) return n.At(InvalidArgument("input ", k, " is not connected"));
    if (IsRef(n.input(k).dtype()) && !IsRef(n.input_type(k))) c.deref = true;
    part_->producers[c.first_slot + k] = {number_[n.input(k).node->id()], n.input(k).index};
  }
  uint32_t data = 0, control = 0;
  for (const Edge* e : n.in_edges()) {
    // A back edge brings no dead tokens: a loop's Merge is dead, and with it the loop, when what
    // enters is.
    if (n.IsMerge() && !e->IsControl() && e->src->IsNextIteration()) {
      back_.resize(order_.size());
      back_[i] = true;
      continue;
    }
    if (e->src->IsOp()) ++(e->IsControl() ? control : data);
  }
  if (!n.IsMerge()) {
    part_->counts[i] = data + control;
    return absl::OkStatus();
  }
  if (control > kMergeControlMask || data > kMergeControlMask) {
    return n.At(InvalidArgument("a Merge may have at most 32767 inputs"));
  }
  part_->counts[i] = control * kMergeControlUnit + data * kMergeDataUnit;
  return absl::OkStatus();
}

void PartCompiler::ConnectOutputs(size_t i) {
  const Node& n = *order_[i];
  CompiledNode& c = part_->nodes[i];
  out_.clear();
  for (const Edge* e : n.out_edges()) {
    if (e->dst->IsOp()) out_.push_back(e);
  }
  // By output, so that the last use of each is known; control edges come last. Of an output's, in
  // the order of RunOrder.
  if (out_.size() > 1) {
    std::stable_sort(out_.begin(), out_.end(), [](const Edge* a, const Edge* b) {
      if (a->src_output != b->src_output)
        return static_cast<uint32_t>(a->src_output) < static_cast<uint32_t>(b->src_output);
      return ReadsOnlyShape(*a) < ReadsOnlyShape(*b);
    });
  }
  c.first_edge = static_cast<uint32_t>(part_->edges.size());
  c.first_control = static_cast<uint32_t>(part_->controls.size());
  for (size_t k = 0; k < out_.size(); ++k) {
    const Edge* e = out_[k];
    const uint32_t dst = number_[e->dst->id()];
    if (e->IsControl()) {
      part_->controls.push_back(dst | (e->dst->IsMerge() ? kControlToMerge : 0));
      continue;
    }
    if (owner_[i] != kNobody && TakesLoaned(part_->nodes[dst], e->dst_input) && LoanTo(i, *e)) continue;
    OutEdge o{};
    o.dst = dst;
    o.loaned = part_->nodes[dst].loaned >> std::min(e->dst_input, 31) & 1;
    o.consumer = e->dst->IsMerge()                               ? Consumer::kMerge
                 : e->dst->IsExit() || e->dst->IsNextIteration() ? Consumer::kIgnoresDead
                                                                 : Consumer::kPlain;
    o.slot = static_cast<int32_t>(part_->nodes[dst].first_slot) + e->dst_input;
    o.output = static_cast<uint16_t>(e->src_output);
    o.last = k + 1 == out_.size() || out_[k + 1]->src_output != e->src_output;
    c.uses_index |= o.output == 1;
    part_->edges.push_back(o);
  }
  c.last_edge = static_cast<uint32_t>(part_->edges.size());
  c.last_control = static_cast<uint32_t>(part_->controls.size());
  int used = 0;
  for (uint32_t e = c.first_edge, first = e; e < c.last_edge; ++e) {
    if (!part_->edges[e].last) continue;
    part_->edges[first].shares = e - first;
    first = e + 1;
    ++used;
  }
  c.unused_outputs = used < n.num_outputs();
}

void PartCompiler::FindSharedUpdates() {
  HashMap<const Node*, uint32_t> first;  // by variable: who changes it
  for (const uint32_t i : with_state_) {
    const Node& n = *order_[i];
    if (!part_->nodes[i].measured) continue;
    for (int k = 0; k < n.num_inputs(); ++k) {
      const bool changes = IsRef(n.input_type(k)) || (n.input_type(k) == DType::kResource && n.num_outputs() == 0);
      const Node* const variable = changes ? VariableOf(n.input(k).node) : nullptr;
      if (variable == nullptr) continue;
      const auto [other, is_new] = first.try_emplace(variable, i);
      if (!is_new) part_->nodes[i].measured = part_->nodes[other->second].measured = false;
    }
  }
}

const Node* PartCompiler::VariableOf(const Node* n) const {
  for (size_t steps = 0; n != nullptr && steps < order_.size(); ++steps) {
    if (n->op().Has(OpTrait::kVariable)) return n;
    if (n->num_inputs() == 0 || (part_->nodes[number_[n->id()]].handling != Handling::kForward && !n->IsControlFlow()))
      break;
    n = n->input(0).node;
  }
  return nullptr;
}

void PartCompiler::FindShapes() {
  if (!part_->has_user_kernels) return;
  bool any = false;
  for (size_t i = 0; i < order_.size() && !any; ++i) {
    any = part_->IsUserKernel(static_cast<uint32_t>(i)) && order_[i]->num_outputs() > 0 &&
          order_[i]->op().shape_fn != nullptr;
  }
  if (!any) return;
  ShapeRefiner refiner(&graph_);
  const absl::StatusOr<std::vector<Node*>> order = graph_.TopologicalOrder();
  if (!order.ok()) return;
  for (const Node* n : *order) {
    // A shape function that refuses or throws was told of where the graph was built; here the
    // shapes are just not known.
    try {
      refiner.AddNode(n).IgnoreError();
    } catch (...) {
    }
  }
  for (size_t i = 0; i < order_.size(); ++i) {
    const Node* n = order_[i];
    if (!part_->IsUserKernel(static_cast<uint32_t>(i)) || n->op().shape_fn == nullptr) continue;
    std::vector<PartialTensorShape> shapes;
    bool known = false;
    for (int k = 0; k < n->num_outputs(); ++k) {
      shapes.push_back(refiner.shape({order_[i], k}));
      known |= shapes.back().known_rank();
    }
    if (known) part_->shapes.emplace(static_cast<uint32_t>(i), std::move(shapes));
  }
}

}  // namespace troupe
