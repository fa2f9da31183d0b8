#include "graph/autodiff/forward_graph.h"

#include <algorithm>

#include "graph/core/hash_map.h"
#include "graph/ir/frames.h"

namespace troupe::autodiff {
namespace {

constexpr size_t kMaxGuard = 500;

}  // namespace

absl::Status ForwardGraph::Build() {
  TROUPE_ASSIGN_OR_RETURN(order_, graph_->TopologicalOrder());
  position_.assign(graph_->num_node_ids(), -1);
  for (size_t i = 0; i < order_.size(); ++i) position_[order_[i]->id()] = static_cast<int>(i);
  TROUPE_RETURN_IF_ERROR(FindFrames());
  FindLoops();
  guards_.assign(1, {});
  guard_ids_[{}] = 0;
  FindGuards();
  if (too_deep_) return Unimplemented("conditionals that are nested more than ", kMaxGuard, " deep have no gradient");
  InferShapes();
  return absl::OkStatus();
}

void ForwardGraph::Place(const Node* n, LoopFrame* frame, int guard) {
  if (n->id() >= static_cast<int>(frame_of_.size())) {
    frame_of_.resize(n->id() + 64, nullptr);
    guard_of_.resize(n->id() + 64, 0);
  }
  frame_of_[n->id()] = frame;
  guard_of_[n->id()] = guard;
}

absl::Status ForwardGraph::FindFrames() {
  std::vector<FrameInfo> info;
  TROUPE_RETURN_IF_ERROR(BuildFrameInfo(*graph_, &info));
  frames_.emplace_back();
  HashMap<std::string, LoopFrame*> by_name{{"", &frames_.front()}};
  for (Node* n : order_) {
    const std::string& name = info[n->id()].frame_name;
    if (by_name.contains(name)) continue;
    LoopFrame* frame = AddFrame({.name = name});
    by_name[name] = frame;
  }
  frame_of_.assign(graph_->num_node_ids(), root());
  guard_of_.assign(graph_->num_node_ids(), 0);
  for (Node* n : order_) {
    const FrameInfo& i = info[n->id()];
    LoopFrame* frame = by_name[i.frame_name];
    frame_of_[n->id()] = frame;
    if (frame->parent == nullptr && frame != root()) frame->parent = by_name[info[i.parent_frame->id()].frame_name];
  }
  return absl::OkStatus();
}

bool ForwardGraph::IsConstantEnter(const Node* n) {
  return n->IsEnter() && n->Attr<bool>("is_constant").value_or(false);
}

bool ForwardGraph::IsLoopSwitch(const Node* n) const {
  return n->IsSwitch() && n->input(1).valid() && n->input(1).node->IsLoopCond();
}
bool ForwardGraph::IsLoopMerge(const Node* n) const {
  if (!n->IsMerge()) return false;
  for (const Edge* e : n->in_edges()) {
    if (!e->IsControl() && e->src->IsNextIteration()) return true;
  }
  return false;
}

LoopVar* ForwardGraph::VarOf(const Node* n) const {
  const auto it = vars_.find(n);
  return it == vars_.end() ? nullptr : &it->second.first->vars[it->second.second];
}

void ForwardGraph::FindLoops() {
  for (Node* n : order_) {
    LoopFrame* frame = FrameOf(n);
    if (n->IsEnter()) {
      frame->enters.push_back(n);
      frame->parallel_iterations = n->Attr<int64_t>("parallel_iterations").value_or(frame->parallel_iterations);
    } else if (n->IsLoopCond()) {
      frame->loop_cond = n;
    } else if (IsLoopMerge(n)) {
      LoopVar var;
      var.merge = n;
      for (int i = 0; i < n->num_inputs(); ++i) {
        Node* in = n->input(i).node;
        if (in == nullptr) continue;
        if (in->IsEnter()) var.enter = in;
        if (in->IsNextIteration()) var.next = in;
      }
      vars_[n] = {frame, static_cast<int>(frame->vars.size())};
      frame->vars.push_back(var);
    }
  }
  for (Node* n : order_) {
    if (!IsLoopSwitch(n)) continue;
    const NodeOut data = n->input(0);
    LoopVar* var = data.valid() && data.index == 0 ? VarOf(data.node) : nullptr;
    if (var == nullptr || var->loop_switch != nullptr) continue;
    var->loop_switch = n;
    const auto at = vars_[data.node];
    vars_[n] = at;
    for (const Edge* e : n->out_edges()) {
      if (e->src_output == 0 && e->dst->IsExit()) var->exit = e->dst;
    }
  }
}

NodeOut ForwardGraph::Predicate(const Node* switch_node) {
  NodeOut p = switch_node->input(1);
  while (p.node->op().Has(OpTrait::kForwardsInput) && p.node->input(0).valid()) p = p.node->input(0);
  return p;
}

int ForwardGraph::Intern(std::vector<GuardItem> items) {
  // Beyond that nothing is kept: memory would grow with the square of the depth, and guards are
  // worked off by recursion.
  if (items.size() > kMaxGuard) {
    too_deep_ = true;
    return 0;
  }
  std::vector<std::pair<int, int>> key;
  // The order of an item tells its predicate apart: it is the position of the predicate's node and
  // output.
  for (const GuardItem& i : items) key.emplace_back(i.order, i.side);
  const auto [it, added] = guard_ids_.emplace(std::move(key), static_cast<int>(guards_.size()));
  if (added) guards_.push_back(std::move(items));
  return it->second;
}

int ForwardGraph::Union(int a, int b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  std::vector<GuardItem> items;
  std::set_union(guards_[a].begin(), guards_[a].end(), guards_[b].begin(), guards_[b].end(), std::back_inserter(items));
  return Intern(std::move(items));
}

int ForwardGraph::Intersection(int a, int b) {
  if (a == b) return a;
  if (a == 0 || b == 0) return 0;
  std::vector<GuardItem> items;
  std::set_intersection(guards_[a].begin(), guards_[a].end(), guards_[b].begin(), guards_[b].end(),
                        std::back_inserter(items));
  return Intern(std::move(items));
}

int ForwardGraph::WithSide(int guard, const Node* switch_node, int side) {
  const NodeOut pred = Predicate(switch_node);
  std::vector<GuardItem> items = guards_[guard];
  const GuardItem item{pred, side, Position(pred.node) * 64 + std::min(pred.index, 63)};
  const auto at = std::lower_bound(items.begin(), items.end(), item);
  if (at != items.end() && !(item < *at)) return guard;
  items.insert(at, item);
  return Intern(std::move(items));
}

int ForwardGraph::GuardOf(NodeOut v) const {
  const int guard = GuardOf(v.node);
  if (!v.node->IsSwitch() || IsLoopSwitch(v.node) || Position(v.node) < 0) return guard;
  return const_cast<ForwardGraph*>(this)->WithSide(guard, v.node, v.index);
}

int ForwardGraph::NodeGuard(const Node* n) {
  if (n->IsEnter()) {
    LoopFrame* frame = FrameOf(n);
    for (const Edge* e : n->in_edges()) {
      frame->guard = Union(frame->guard, e->IsControl() ? GuardOf(e->src) : GuardOf(NodeOut{e->src, e->src_output}));
    }
    return 0;
  }
  if (n->IsExit()) return FrameOf(n)->guard;
  if (IsLoopMerge(n)) return 0;
  int guard = 0, merged = -1;
  for (const Edge* e : n->in_edges()) {
    if (e->IsControl()) {
      if (!e->src->IsSource()) guard = Union(guard, GuardOf(e->src));
      continue;
    }
    const int in = GuardOf(NodeOut{e->src, e->src_output});
    if (n->IsMerge()) {
      merged = merged < 0 ? in : Intersection(merged, in);
    } else {
      guard = Union(guard, in);
    }
  }
  return merged > 0 ? Union(guard, merged) : guard;
}

void ForwardGraph::FindGuards() {
  // An Exit's guard is its loop's, and that is known when all Enters have been seen; they may come
  // later in the order, hence the repetition.
  bool has_switch = false;
  for (Node* n : order_) has_switch |= n->IsSwitch() && !IsLoopSwitch(n);
  if (!has_switch) return;
  for (bool changed = true; changed;) {
    changed = false;
    for (Node* n : order_) {
      const int guard = NodeGuard(n);
      changed |= n->IsExit() && guard_of_[n->id()] != guard;
      guard_of_[n->id()] = guard;
    }
  }
}

}  // namespace troupe::autodiff
