#include "troupe/actors/executor/compiled_part.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "troupe/graph/ir/control_flow.h"
#include "troupe/kernels/control/edge_key.h"

namespace troupe {
namespace {

// FNV-1a: the same in every process, so that tags of iterations agree between hosts.
uint64_t HashName(std::string_view s) {
  uint64_t h = 14695981039346656037ull;
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

class Compiler {
 public:
  Compiler(const Graph& graph, Device* device, const std::string& session)
      : graph_(graph), device_(device), session_(session), part_(std::make_shared<CompiledPart>()) {}

  absl::StatusOr<std::shared_ptr<const CompiledPart>> Run() {
    part_->device = device_;
    TROUPE_RETURN_IF_ERROR(FindFrames());
    TROUPE_RETURN_IF_ERROR(NumberNodes());
    for (size_t i = 0; i < order_.size(); ++i) TROUPE_RETURN_IF_ERROR(PrepareNode(i));
    for (size_t i = 0; i < order_.size(); ++i) TROUPE_RETURN_IF_ERROR(ConnectNode(i));
    return std::shared_ptr<const CompiledPart>(part_);
  }

 private:
  absl::Status FindFrames() {
    const std::vector<Node*> ops = graph_.op_nodes();
    bool loops = false;
    for (const Node* n : ops) {
      loops |= n->IsEnter() || n->IsExit() || n->IsNextIteration();
      part_->has_control_flow |= n->IsControlFlow() || n->IsRecv();
    }
    part_->frames.emplace_back();
    frame_of_.assign(graph_.num_node_ids(), 0);
    if (!loops) return absl::OkStatus();
    std::vector<ControlFlowInfo> info;
    TROUPE_RETURN_IF_ERROR(BuildControlFlowInfo(graph_, &info));
    absl::flat_hash_map<std::string, uint32_t> by_name{{"", 0}};
    for (const Node* n : ops) {
      const ControlFlowInfo& i = info[n->id()];
      if (i.frame == nullptr) return n->At(InvalidArgument("nothing leads into the loop that the node is in"));
      const auto [it, is_new] = by_name.try_emplace(i.frame_name, static_cast<uint32_t>(part_->frames.size()));
      if (is_new) {
        if (it->second > 65000) return InvalidArgument("the part has more than 65000 loops");
        StaticFrame& f = part_->frames.emplace_back();
        f.name = i.frame_name;
        f.name_hash = HashName(i.frame_name);
      }
      frame_of_[n->id()] = it->second;
    }
    for (const Node* n : ops) {
      if (!n->IsEnter()) continue;
      const ControlFlowInfo& i = info[n->id()];
      const uint32_t inner = frame_of_[n->id()];
      const Node* outer = i.parent_frame;
      StaticFrame& f = part_->frames[inner];
      f.parent = outer == nullptr || outer->IsSource() ? 0 : by_name[info[outer->id()].frame_name];
      ++f.num_enters;
      if (auto p = n->Attr<int64_t>("parallel_iterations"); p.ok()) {
        f.parallel_iterations = static_cast<uint32_t>(std::clamp<int64_t>(*p, 1, 1 << 20));
      }
      enter_frame_[n->id()] = inner;
    }
    // An Enter's own inputs arrive in the frame around the one that it leads into.
    for (const auto& [id, inner] : enter_frame_) frame_of_[id] = part_->frames[inner].parent;
    return absl::OkStatus();
  }

  absl::Status NumberNodes() {
    order_ = graph_.op_nodes();
    if (order_.size() > (1u << 30)) return InvalidArgument("the part has ", order_.size(), " nodes, too many");
    if (part_->frames.size() > 1) {
      std::stable_sort(order_.begin(), order_.end(),
                       [&](Node* a, Node* b) { return frame_of_[a->id()] < frame_of_[b->id()]; });
    }
    number_.assign(graph_.num_node_ids(), 0);
    part_->nodes.resize(order_.size());
    part_->counts.assign(order_.size(), 0);
    part_->info.resize(order_.size());
    part_->cost = std::make_unique<std::atomic<uint32_t>[]>(order_.size());
    int64_t slots = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node* n = order_[i];
      if (n->num_inputs() > 65000 || n->num_outputs() > 65000) {
        return n->At(InvalidArgument("a node may have at most 65000 inputs and outputs"));
      }
      number_[n->id()] = static_cast<uint32_t>(i);
      StaticFrame& f = part_->frames[frame_of_[n->id()]];
      if (f.num_nodes++ == 0) {
        f.first_node = static_cast<uint32_t>(i);
        f.first_slot = static_cast<uint32_t>(slots);
      }
      part_->nodes[i].first_slot = static_cast<uint32_t>(slots);
      slots += n->num_inputs();
      f.num_slots += static_cast<uint32_t>(n->num_inputs());
    }
    if (slots > std::numeric_limits<int32_t>::max()) return InvalidArgument("the part has ", slots, " inputs, too many");
    part_->num_slots = static_cast<uint32_t>(slots);
    part_->producers.resize(part_->num_slots);
    return absl::OkStatus();
  }

  absl::Status PrepareNode(size_t i) {
    const Node& n = *order_[i];
    CompiledNode& c = part_->nodes[i];
    KernelNode& info = part_->info[i];
    info.name = n.name();
    info.op = n.op().name;
    info.input_types = n.input_types();
    info.output_types = n.output_types();
    info.device = device_;
    info.location = n.location();
    c.info = &info;
    c.num_inputs = static_cast<uint16_t>(n.num_inputs());
    c.num_outputs = static_cast<uint16_t>(n.num_outputs());
    c.flow = n.control_flow();
    const auto enter = enter_frame_.find(n.id());
    c.frame = static_cast<uint16_t>(enter != enter_frame_.end() ? enter->second : frame_of_[n.id()]);
    c.dead_aware = n.IsSend();
    c.allows_uninitialized = n.op().Has(OpTrait::kAllowsUninitializedInput);
    part_->max_outputs = std::max<uint32_t>(part_->max_outputs, c.num_outputs);
    if (n.IsEnter()) {
      auto constant = n.Attr<bool>("is_constant");
      c.constant_enter = constant.ok() && *constant;
    }
    const bool argument = n.op().Has(OpTrait::kArgument), result = n.op().Has(OpTrait::kResult);
    if (argument || result) {
      absl::StatusOr<int64_t> index = n.Attr<int64_t>("index");
      if (!index.ok()) return n.At(index.status());
      if (*index > (1 << 24)) return n.At(InvalidArgument("index ", *index, " is out of range"));
      c.index = static_cast<uint32_t>(*index);
      c.step = argument ? Step::kArgument : Step::kResult;
      uint32_t& count = argument ? part_->num_arguments : part_->num_results;
      count = std::max(count, c.index + 1);
      return absl::OkStatus();
    }
    if (n.IsRecv()) {
      absl::StatusOr<std::string> key = EdgeKey(n);
      if (!key.ok()) return n.At(key.status());
      part_->recvs.emplace_back(*std::move(key), static_cast<uint32_t>(i));
    }
    TROUPE_ASSIGN_OR_RETURN(PreparedKernel kernel, PrepareKernel(n, device_, session_));
    if (n.IsConstant()) {
      const AttrValue* v = n.attrs().Find("value");
      const Tensor* t = v == nullptr ? nullptr : v->As<Tensor>();
      // A constant whose value is not of its declared type is left to its kernel, which says so.
      if (t != nullptr && t->valid() && t->dtype() == n.output_type(0)) {
        c.step = Step::kConstant;
        c.index = static_cast<uint32_t>(part_->constants.size());
        part_->constants.push_back(*t);
        return absl::OkStatus();
      }
    }
    c.compute = kernel.compute;
    c.state = kernel.state.get();
    c.measured = kernel.cost == Cost::kMeasured;
    if (kernel.compute_async != nullptr) {
      c.step = Step::kAsyncKernel;
      part_->async.resize(order_.size());
      part_->async[i] = kernel.compute_async;
    } else if (c.num_inputs == 0 && c.num_outputs == 0 && !n.op().stateful() && kernel.state == nullptr && !c.measured) {
      c.step = Step::kNothing;  // no values, no state, no effect: it only orders others
    }
    if (kernel.state != nullptr) part_->states.push_back(std::move(kernel.state));
    return absl::OkStatus();
  }

  absl::Status ConnectNode(size_t i) {
    const Node& n = *order_[i];
    CompiledNode& c = part_->nodes[i];
    for (int k = 0; k < n.num_inputs(); ++k) {
      if (n.input_edge(k) == nullptr) return n.At(InvalidArgument("input ", k, " is not connected"));
      if (IsRef(n.input(k).dtype()) && !IsRef(n.input_type(k))) c.deref = true;
      part_->producers[c.first_slot + k] = {number_[n.input(k).node->id()], n.input(k).index};
    }
    uint32_t data = 0, control = 0;
    bool back = false;
    for (const Edge* e : n.in_edges()) {
      // A back edge brings no dead tokens: a loop's Merge is dead, and with it the loop, when what enters is.
      if (n.IsMerge() && !e->IsControl() && e->src->IsNextIteration()) {
        back = true;
        continue;
      }
      if (e->src->IsOp()) ++(e->IsControl() ? control : data);
    }
    if (n.IsMerge()) {
      if (control > kMergeControlMask || data > kMergeControlMask) {
        return n.At(InvalidArgument("a Merge may have at most 32767 inputs"));
      }
      part_->counts[i] = control * kMergeControlUnit + data * kMergeDataUnit;
    } else {
      part_->counts[i] = data + control;
    }
    if (data + control == 0 && !back) part_->roots.push_back(static_cast<uint32_t>(i));
    out_.clear();
    for (const Edge* e : n.out_edges()) {
      if (e->dst->IsOp()) out_.push_back(e);
    }
    // By output, so that the last use of each is known; control edges come last.
    if (out_.size() > 1) {
      std::stable_sort(out_.begin(), out_.end(), [](const Edge* a, const Edge* b) {
        return static_cast<uint32_t>(a->src_output) < static_cast<uint32_t>(b->src_output);
      });
    }
    c.first_edge = static_cast<uint32_t>(part_->edges.size());
    int used = 0;
    for (size_t k = 0; k < out_.size(); ++k) {
      const Edge* e = out_[k];
      OutEdge o{};
      o.dst = number_[e->dst->id()];
      o.to_merge = e->dst->IsMerge();
      o.slot = e->IsControl() ? -1 : static_cast<int32_t>(part_->nodes[o.dst].first_slot) + e->dst_input;
      o.output = static_cast<uint16_t>(e->IsControl() ? 0 : e->src_output);
      o.last = !e->IsControl() && (k + 1 == out_.size() || out_[k + 1]->src_output != e->src_output);
      used += o.last;
      part_->edges.push_back(o);
    }
    c.last_edge = static_cast<uint32_t>(part_->edges.size());
    c.unused_outputs = used < n.num_outputs();
    return absl::OkStatus();
  }

  const Graph& graph_;
  Device* device_;
  const std::string& session_;
  std::shared_ptr<CompiledPart> part_;
  std::vector<uint32_t> frame_of_;                   // by node id: where its inputs arrive
  absl::flat_hash_map<int, uint32_t> enter_frame_;   // by node id: where an Enter leads
  std::vector<Node*> order_;
  std::vector<uint32_t> number_;  // by node id
  std::vector<const Edge*> out_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CompiledPart>> CompiledPart::Compile(const Graph& graph, Device* device,
                                                                         const std::string& session) {
  return Compiler(graph, device, session).Run();
}

}  // namespace troupe
