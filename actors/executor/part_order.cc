// The frames of a part, the order of its nodes, and which of its nodes take turns.
#include <algorithm>
#include <limits>

#include "actors/executor/part_compiler.h"
#include "graph/core/hash_map.h"
#include "graph/ir/frames.h"
#include "graph/passes/run_order.h"

namespace troupe {

absl::Status PartCompiler::FindFrames() {
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
  HashMap<std::string, uint32_t> by_name{{"", 0}};
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

absl::Status PartCompiler::NumberNodes() {
  order_ = graph_.op_nodes();
  if (order_.size() > (1u << 30)) return InvalidArgument("the part has ", order_.size(), " nodes, too many");
  if (part_->frames.size() > 1) {
    std::stable_sort(order_.begin(), order_.end(),
                     [&](Node* a, Node* b) { return frame_of_[a->id()] < frame_of_[b->id()]; });
  } else if (std::none_of(order_.begin(), order_.end(), [](const Node* n) { return n->IsControlFlow(); })) {
    order_ = RunOrder(graph_);
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
  if (slots > std::numeric_limits<int32_t>::max()) return InvalidArgument("the part has ", slots, " inputs, too many");
  part_->num_slots = static_cast<uint32_t>(slots);
  part_->producers.resize(part_->num_slots);
  return absl::OkStatus();
}

bool PartCompiler::HasState(const Node& n) {
  bool state = n.op().stateful();
  for (int k = 0; k < n.num_inputs() && !state; ++k) state = IsRef(n.input_type(k));
  return state && !n.IsSend() && !n.IsRecv();
}

void PartCompiler::FindTurns() {
  if (part_->frames.size() == 1) return;
  std::vector<uint32_t> found;
  for (const uint32_t i : with_state_) {
    CompiledNode& c = part_->nodes[i];
    const uint32_t f = frame_of_[order_[i]->id()];
    const bool runs = c.handling == Handling::kKernel || c.handling == Handling::kAsyncKernel;
    if (f == 0 || !runs || c.flow != ControlFlow::kNone) continue;
    StaticFrame& frame = part_->frames[f];
    if (frame.in_turn.empty()) found.push_back(f);
    c.flow = kInTurn;
    c.index = static_cast<uint32_t>(frame.in_turn.size());
    frame.in_turn.push_back(i);
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

void PartCompiler::FindRoots() {
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

void PartCompiler::FindOrdering() {
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

}  // namespace troupe
