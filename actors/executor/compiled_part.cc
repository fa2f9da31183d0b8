#include "actors/executor/compiled_part.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "actors/wire/graph_messages.h"
#include "graph/ir/frames.h"
#include "graph/passes/partition.h"
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

class Compiler {
 public:
  Compiler(const Graph& graph, std::shared_ptr<Device> device, const SessionScope& session)
      : graph_(graph),
        device_(device.get()),
        session_(session),
        finder_(device->type()),
        part_(std::make_shared<CompiledPart>()) {
    part_->device = std::move(device);
    part_->syncs = device_->runs_kernels();
  }

  absl::StatusOr<std::shared_ptr<const CompiledPart>> Run() {
    TROUPE_RETURN_IF_ERROR(FindFrames());
    TROUPE_RETURN_IF_ERROR(NumberNodes());
    for (size_t i = 0; i < order_.size(); ++i) TROUPE_RETURN_IF_ERROR(PrepareNode(i));
    FindLoans();
    for (size_t i = 0; i < order_.size(); ++i) TROUPE_RETURN_IF_ERROR(ConnectNode(i));
    FindTurns();
    FindSharedUpdates();
    FindShapes();
    LeaveOutConstants();
    FindRoots();
    FindOrdering();
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
    // An Enter gives its frame a name; what hands values to the next iteration, or out of the loop,
    // has none without it.
    std::vector<FrameInfo> info;
    TROUPE_RETURN_IF_ERROR(BuildFrameInfo(graph_, &info));
    absl::flat_hash_map<std::string, uint32_t> by_name{{"", 0}};
    for (const Node* n : ops) {
      const FrameInfo& i = info[n->id()];
      if (i.frame == nullptr) return n->At(InvalidArgument("nothing leads into the loop that the node is in"));
      if (n->IsNextIteration() && i.frame_name.empty()) {
        return n->At(InvalidArgument("a NextIteration must be inside of a frame, but no Enter leads to it"));
      }
      const auto [it, is_new] = by_name.try_emplace(i.frame_name, static_cast<uint32_t>(part_->frames.size()));
      if (is_new) {
        if (it->second > 65000) return InvalidArgument("the part has more than 65000 loops");
        StaticFrame& f = part_->frames.emplace_back();
        f.name = i.frame_name;
      }
      frame_of_[n->id()] = it->second;
    }
    for (const Node* n : ops) {
      if (!n->IsEnter()) continue;
      const FrameInfo& i = info[n->id()];
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
    } else if (std::none_of(order_.begin(), order_.end(), [](const Node* n) { return n->IsControlFlow(); })) {
      OrderAsRun();
    }
    number_.assign(graph_.num_node_ids(), 0);
    part_->nodes.resize(order_.size());
    part_->counts.assign(order_.size(), 0);
    part_->info.reserve(order_.size());
    part_->properties.reserve(order_.size());
    part_->cost = std::make_unique<std::atomic<uint32_t>[]>(order_.size());
    int64_t slots = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node* n = order_[i];
      if (n->num_outputs() > kMaxOutputs) {
        return n->At(InvalidArgument("a node may have at most ", kMaxOutputs, " outputs, not ", n->num_outputs()));
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
    if (slots > std::numeric_limits<int32_t>::max())
      return InvalidArgument("the part has ", slots, " inputs, too many");
    part_->num_slots = static_cast<uint32_t>(slots);
    part_->producers.resize(part_->num_slots);
    return absl::OkStatus();
  }

  // Without control flow a step takes its nodes off a stack, those that only order others off a
  // queue (StepState::RunOrdering), so their order is nearly known: numbered in it, their counters,
  // edges and kernels are read one after the other, where another order would wait for memory as
  // soon as a part no longer fits the cache.
  void OrderAsRun() {
    std::vector<int> missing(graph_.num_node_ids(), 0);
    std::vector<Node*> stack, order, queue;
    size_t head = 0;
    std::vector<bool> done(graph_.num_node_ids(), false);
    const auto loaned = [](const Node* n) { return n->IsConstant() && n->in_edges().empty(); };
    for (Node* n : order_) {
      for (const Edge* e : n->in_edges()) missing[n->id()] += e->src->IsOp() && !loaned(e->src);
    }
    for (size_t i = order_.size(); i-- > 0;) {
      if (missing[order_[i]->id()] == 0 && !loaned(order_[i])) stack.push_back(order_[i]);
    }
    order.reserve(order_.size());
    const auto orders = [](const Node* n) {
      return n->num_inputs() == 0 && n->num_outputs() == 0 && !n->op().stateful();
    };
    while (!stack.empty() || head != queue.size()) {
      for (; !stack.empty() && orders(stack.back()); stack.pop_back()) queue.push_back(stack.back());
      const bool queued = head != queue.size();
      Node* n = queued ? queue[head++] : stack.back();
      if (!queued) {
        stack.pop_back();
      } else if (!orders(n)) {
        stack.push_back(n);
        continue;
      }
      order.push_back(n);
      done[n->id()] = true;
      std::vector<Node*>& ready = queued ? queue : stack;
      for (const bool control : {false, true}) {
        for (const Edge* e : n->out_edges()) {
          if (e->IsControl() == control && e->dst->IsOp() && --missing[e->dst->id()] == 0) ready.push_back(e->dst);
        }
      }
    }
    // Constants are not run.
    for (Node* n : order_) {
      if (!done[n->id()]) order.push_back(n);
    }
    order_ = std::move(order);
  }

  absl::Status PrepareNode(size_t i) {
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
    if (n.IsSend() || n.IsRecv()) {
      absl::StatusOr<std::string> key = EdgeKey(n);
      if (!key.ok()) return n.At(key.status());
      if (n.attrs().Find(kGrantedAttr) != nullptr) {
        (n.IsSend() ? part_->granted_sends : part_->granted_recvs).insert(*key);
      }
      (n.IsSend() ? part_->sends : part_->recvs).emplace_back(*std::move(key), static_cast<uint32_t>(i));
    }
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
    if (kernel.compute_async != nullptr) {
      c.handling = Handling::kAsyncKernel;
      part_->async.resize(order_.size());
      part_->async[i] = kernel.compute_async;
    } else if (c.num_inputs == 0 && c.num_outputs == 0 && !n.op().stateful() && kernel.state == nullptr &&
               !c.measured) {
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

  absl::Status ConnectNode(size_t i) {
    TROUPE_RETURN_IF_ERROR(CountInputs(i));
    ConnectOutputs(i);
    return absl::OkStatus();
  }

  // Where the node's values come from, and how many tokens it waits for.
  absl::Status CountInputs(size_t i) {
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

  void ConnectOutputs(size_t i) {
    const Node& n = *order_[i];
    CompiledNode& c = part_->nodes[i];
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

  // The value of node i's `e` is loaned to its consumer. True: the edge carries a control token
  // instead, since the value is where the consumer finds it before the step begins.
  bool LoanTo(size_t i, const Edge& e) {
    const uint32_t dst = number_[e.dst->id()];
    const uint32_t slot = part_->nodes[dst].first_slot + static_cast<uint32_t>(e.dst_input);
    part_->owners.resize(part_->num_slots);
    part_->owners[slot] = owner_[i];
    part_->nodes[dst].loaned |= 1u << e.dst_input;
    if ((owner_[i] & kLoanedArgument) != 0) {
      loaned_arguments_.insert(owner_[i] & ~kLoanedArgument);
      return false;
    }
    part_->nodes[dst].pinned |= 1u << e.dst_input;
    part_->frames[frame_of_[e.dst->id()]].pinned.emplace_back(slot, owner_[i]);
    part_->controls.push_back(dst);
    return true;
  }

  // Who may be handed a value without a reference: what only looks at its inputs, or hands them on.
  static bool TakesLoaned(const CompiledNode& n, int input) {
    return input < kMaxLoanedInputs && n.flow == ControlFlow::kNone && !n.dead_aware &&
           (n.handling == Handling::kKernel || n.handling == Handling::kForward || n.handling == Handling::kResult ||
            n.handling == Handling::kAsyncKernel);
  }

  // Constants, arguments and what is handed on of them.
  void FindLoans() {
    constexpr uint32_t kUnknown = kNobody - 1;
    owner_.assign(order_.size(), kUnknown);
    std::vector<uint32_t> chain;
    for (uint32_t i = 0; i < order_.size(); ++i) {
      chain.clear();
      uint32_t at = i, owner = kNobody;
      for (;;) {
        if (owner_[at] != kUnknown) {
          owner = owner_[at];
          break;
        }
        chain.push_back(at);
        const CompiledNode& n = part_->nodes[at];
        if (n.handling == Handling::kConstant || n.handling == Handling::kArgument) {
          if (!IsRef(order_[at]->output_type(0)))
            owner = n.handling == Handling::kConstant ? n.index : n.index | kLoanedArgument;
          break;
        }
        if (n.handling != Handling::kForward || n.flow != ControlFlow::kNone || order_[at]->input_edge(0) == nullptr ||
            IsRef(order_[at]->input(0).dtype())) {
          break;
        }
        at = number_[order_[at]->input(0).node->id()];
      }
      for (const uint32_t node : chain) {
        owner_[node] = owner;
        part_->nodes[node].loans = owner != kNobody;
      }
    }
  }

  // A constant that waits for nothing, and whose consumers all have it pinned, is not run, and
  // nobody waits for it.
  void LeaveOutConstants() {
    CompiledPart& p = *part_;
    left_out_.assign(p.nodes.size(), false);
    for (uint32_t i = 0; i < p.nodes.size(); ++i) {
      CompiledNode& n = p.nodes[i];
      if (n.handling != Handling::kConstant || n.first_edge != n.last_edge) continue;
      // Its value is where it is needed; what is left of it is when.
      n.handling = Handling::kNothing;
      n.unused_outputs = n.loans = false;
      bool all = i < p.frames[0].num_nodes && p.counts[i] == 0;
      for (uint32_t e = n.first_control; e < n.last_control; ++e) all &= p.controls[e] < p.frames[0].num_nodes;
      if (!all) continue;
      left_out_[i] = true;
      for (uint32_t e = n.first_control; e < n.last_control; ++e) --p.counts[p.controls[e]];
    }
    p.loaned_arguments.assign(loaned_arguments_.begin(), loaned_arguments_.end());
    std::sort(p.loaned_arguments.begin(), p.loaned_arguments.end());
  }

  // What runs when, matters for more than its inputs and outputs. An op that takes a reference may
  // change what that names.
  static bool HasState(const Node& n) {
    bool state = n.op().stateful();
    for (int k = 0; k < n.num_inputs() && !state; ++k) state = IsRef(n.input_type(k));
    return state && !n.IsSend() && !n.IsRecv();
  }

  // Stateful nodes of loops, and the loops that have such nodes or loops in them.
  void FindTurns() {
    if (part_->frames.size() == 1) return;
    std::vector<uint32_t> found;
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node& n = *order_[i];
      CompiledNode& c = part_->nodes[i];
      const uint32_t f = frame_of_[n.id()];
      const bool runs = c.handling == Handling::kKernel || c.handling == Handling::kAsyncKernel;
      if (f == 0 || !runs || c.flow != ControlFlow::kNone || !HasState(n)) continue;
      StaticFrame& frame = part_->frames[f];
      if (frame.in_turn.empty()) found.push_back(f);
      c.flow = kInTurn;
      c.index = static_cast<uint32_t>(frame.in_turn.size());
      frame.in_turn.push_back(static_cast<uint32_t>(i));
      ++part_->counts[i];
    }
    while (!found.empty()) {
      const uint32_t f = found.back();
      found.pop_back();
      const uint32_t around = part_->frames[f].parent;
      if (around == 0 || part_->frames[f].place != StaticFrame::kNoPlace) continue;
      std::vector<uint32_t>& list = part_->frames[around].in_turn;
      part_->frames[f].place = static_cast<uint32_t>(list.size());
      list.push_back(f | StaticFrame::kLoopInTurn);
      found.push_back(around);
    }
  }

  // Nodes that change one variable and have no order between them run as soon as they are ready:
  // what they cost decides neither when nor where.
  void FindSharedUpdates() {
    absl::flat_hash_map<const Node*, uint32_t> first;  // by variable: who changes it
    for (uint32_t i = 0; i < order_.size(); ++i) {
      const Node& n = *order_[i];
      if (!part_->nodes[i].measured || !HasState(n)) continue;
      for (int k = 0; k < n.num_inputs(); ++k) {
        const bool changes = IsRef(n.input_type(k)) || (n.input_type(k) == DType::kResource && n.num_outputs() == 0);
        const Node* const variable = changes ? VariableOf(n.input(k).node) : nullptr;
        if (variable == nullptr) continue;
        const auto [other, is_new] = first.try_emplace(variable, i);
        if (!is_new) part_->nodes[i].measured = part_->nodes[other->second].measured = false;
      }
    }
  }

  // The node that names the variable which `n` hands on; null when it cannot be told.
  const Node* VariableOf(const Node* n) const {
    for (size_t steps = 0; n != nullptr && steps < order_.size(); ++steps) {
      if (n->op().Has(OpTrait::kVariable)) return n;
      if (n->num_inputs() == 0 ||
          (part_->nodes[number_[n->id()]].handling != Handling::kForward && !n->IsControlFlow()))
        break;
      n = n->input(0).node;
    }
    return nullptr;
  }

  // What is known of the shapes that users' kernels must give.
  void FindShapes() {
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

  void FindRoots() {
    CompiledPart& p = *part_;
    back_.resize(p.nodes.size());
    // The last is run first: kernels that wait for something start before those that compute,
    // otherwise in the graph's order.
    for (const bool waits : {false, true}) {
      for (uint32_t i = p.frames[0].num_nodes; i-- > 0;) {
        if (p.counts[i] != 0 || left_out_[i] || back_[i] || (p.nodes[i].handling == Handling::kAsyncKernel) != waits)
          continue;
        p.roots.push_back(i);
      }
    }
  }

  void FindOrdering() {
    CompiledPart& p = *part_;
    if (p.has_control_flow || p.controls.size() >= (1u << 31)) return;
    size_t some = 0;
    for (size_t i = 0; i < p.nodes.size(); ++i) some += p.nodes[i].handling == Handling::kNothing && !left_out_[i];
    if (some == 0) return;
    p.ordering.resize(p.nodes.size() + 1);
    for (size_t i = 0; i < p.nodes.size(); ++i) {
      p.ordering[i] = p.nodes[i].first_control << 1 | (p.nodes[i].handling == Handling::kNothing);
    }
    p.ordering.back() = static_cast<uint32_t>(p.controls.size()) << 1;
  }

  const Graph& graph_;
  Device* device_;
  const SessionScope& session_;
  KernelFinder finder_;
  std::shared_ptr<CompiledPart> part_;
  std::vector<uint32_t> frame_of_;                  // by node id: where its inputs arrive
  absl::flat_hash_map<int, uint32_t> enter_frame_;  // by node id: where an Enter leads
  std::vector<Node*> order_;
  std::vector<uint32_t> number_;  // by node id
  std::vector<const Edge*> out_;
  std::vector<bool> back_;      // by number: a Merge that a NextIteration leads back to
  std::vector<bool> left_out_;  // by number: a constant that is not run
  static constexpr uint32_t kNobody = ~0u;
  std::vector<uint32_t> owner_;  // by number: whose the output is, as in CompiledPart::owners
  absl::flat_hash_set<uint32_t> loaned_arguments_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const CompiledPart>> CompiledPart::Compile(const Graph& graph,
                                                                          std::shared_ptr<Device> device,
                                                                          const SessionScope& session) {
  return Compiler(graph, std::move(device), session).Run();
}

PartEdges EdgesOf(const CompiledPart& part) {
  PartEdges edges;
  edges.device = part.device->name();
  for (const auto& [name, node] : part.recvs) edges.in.push_back({name, part.granted_recvs.contains(name)});
  for (const auto& [name, node] : part.sends) edges.out.push_back({name, part.granted_sends.contains(name)});
  return edges;
}

}  // namespace troupe
