#include "graph/passes/control_loops.h"

#include <algorithm>

#include "graph/core/hash_map.h"
#include "graph/passes/reference_reads.h"
#include "troupe/tensor.h"

namespace troupe {
namespace {

bool PassesReference(const Node& n) {
  return std::any_of(n.input_types().begin(), n.input_types().end(),
                     [](DType t) { return IsRef(t) || t == DType::kResource; });
}

const Node* FirstConsumer(const Node& n) {
  const Node* first = nullptr;
  for (const Edge* e : n.out_edges()) {
    if (e->IsControl()) continue;
    if (first == nullptr || e->dst->id() < first->id()) first = e->dst;
  }
  return first;
}

// Moves control flow to its values.
absl::Status Colocate(const Graph& graph) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph.TopologicalOrder());
  for (Node* n : order) {
    if ((n->IsSwitch() || n->IsExit()) && !PassesReference(*n) && n->input(0).valid()) {
      n->set_assigned_device(n->input(0).node->assigned_device());
    }
  }
  // Backwards, so that an Enter into an Enter follows it.
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    Node* n = *it;
    if ((n->IsEnter() || n->IsNextIteration()) && !PassesReference(*n)) {
      if (const Node* consumer = FirstConsumer(*n)) n->set_assigned_device(consumer->assigned_device());
    }
  }
  return absl::OkStatus();
}

absl::Status SplitConstantEnters(Graph* graph) {
  for (Node* n : graph->op_nodes()) {
    if (!n->IsEnter() || PassesReference(*n) || !n->Attr<bool>("is_constant").value_or(false)) continue;
    HashMap<std::string, Node*> copies{{n->assigned_device(), n}};
    const EdgeList edges = n->out_edges();
    for (const Edge* e : edges) {
      if (e->IsControl()) continue;
      Node*& copy = copies[e->dst->assigned_device()];
      if (copy == nullptr) {
        TROUPE_ASSIGN_OR_RETURN(copy, graph->CopyNode(*n, graph->UniqueName(n->name())));
        copy->set_assigned_device(e->dst->assigned_device());
        TROUPE_RETURN_IF_ERROR(graph->AddEdge(n->input(0), copy, 0).status());
        for (const Edge* in : n->in_edges()) {
          if (in->IsControl()) graph->AddControlEdge(in->src, copy);
        }
      }
      if (copy != n) TROUPE_RETURN_IF_ERROR(graph->UpdateEdge({copy, 0}, e->dst, e->dst_input));
    }
  }
  return absl::OkStatus();
}

std::string LoopKey(const std::string& frame, const std::string& device) { return StrCat(frame, "\n", device); }

}  // namespace

absl::StatusOr<ControlLoops> ControlLoops::Add(Graph* graph) {
  ControlLoops loops(graph);
  std::vector<Node*> nodes = graph->op_nodes();
  if (std::none_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->IsControlFlow(); })) {
    TROUPE_RETURN_IF_ERROR(ReadReferencesAtHome(graph));
    return loops;
  }
  TROUPE_RETURN_IF_ERROR(Colocate(*graph));
  TROUPE_RETURN_IF_ERROR(SplitConstantEnters(graph));
  TROUPE_RETURN_IF_ERROR(ReadReferencesAtHome(graph));
  TROUPE_RETURN_IF_ERROR(BuildFrameInfo(*graph, &loops.info_));
  nodes = graph->op_nodes();
  HashSet<std::string> iterating;  // LoopKeys
  for (Node* n : nodes) {
    const std::string& frame = loops.info_[n->id()].frame_name;
    if (frame.empty()) continue;
    if (n->IsLoopCond()) loops.loop_conds_[frame] = n;
    if (n->IsEnter()) loops.enters_.try_emplace(frame, n);
    if (n->IsNextIteration()) iterating.insert(LoopKey(frame, n->assigned_device()));
  }
  if (loops.enters_.empty()) return loops;
  TROUPE_RETURN_IF_ERROR(loops.FindFirstOnly());
  for (Node* n : nodes) {
    const std::string frame = loops.TokenFrame(*n);
    if (frame.empty()) continue;
    const EdgeList edges = n->out_edges();
    for (const Edge* e : edges) {
      if (!e->dst->IsOp() || n->assigned_device() == e->dst->assigned_device()) continue;
      TROUPE_RETURN_IF_ERROR(loops.AddFor(frame, e->dst->assigned_device(), *n));
      // The sender, too, must hear of the iterations in which it is to send: what depends on loop
      // invariants alone (a reference, a resource handle) is sent in each of them.
      if (!loops.IsFirstOnly(*n) && !iterating.contains(LoopKey(frame, n->assigned_device()))) {
        TROUPE_RETURN_IF_ERROR(loops.AddFor(frame, n->assigned_device(), *n));
      }
    }
  }
  return loops;
}

// In topological order: nodes that have a token in the first iteration of their frame only.
absl::Status ControlLoops::FindFirstOnly() {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_->TopologicalOrder());
  first_only_.assign(info_.size(), false);
  HashMap<std::string, bool> entered_once;  // by frame name: its Enters run in the first iteration only
  for (const Node* n : order) {
    if (!n->IsOp() || info_[n->id()].frame_name.empty()) continue;
    bool any = false;
    for (const Edge* e : n->in_edges()) any = any || (e->src->IsOp() && first_only_[e->src->id()]);
    if (n->IsEnter()) {
      entered_once[info_[n->id()].frame_name] |= any;
      first_only_[n->id()] = !n->Attr<bool>("is_constant").value_or(false);
    } else if (n->IsExit()) {
      first_only_[n->id()] = entered_once[info_[n->id()].frame_name];
    } else {
      const auto is_back = [](const Edge* e) { return e->src->IsNextIteration(); };
      first_only_[n->id()] =
          any && !n->IsNextIteration() && std::none_of(n->in_edges().begin(), n->in_edges().end(), is_back);
    }
  }
  return absl::OkStatus();
}

bool ControlLoops::IsFirstOnly(const Node& src) const {
  return src.id() < static_cast<int>(first_only_.size()) && first_only_[src.id()];
}

// The frame in which the tokens of `src` travel.
const std::string& ControlLoops::TokenFrame(const Node& src) const {
  static const std::string* root = new std::string;
  if (src.id() >= static_cast<int>(info_.size())) return *root;
  const FrameInfo& info = info_[src.id()];
  if (info.frame == nullptr) return *root;
  return src.IsExit() ? info_[info.parent_frame->id()].frame_name : info.frame_name;
}

Node* ControlLoops::Pivot(const Node& src, const std::string& device) const {
  if (loops_.empty()) return nullptr;
  const auto it = loops_.find(LoopKey(TokenFrame(src), device));
  if (it == loops_.end()) return nullptr;
  return IsFirstOnly(src) ? it->second.enter : it->second.merge;
}

absl::Status ControlLoops::AddFor(const std::string& innermost, const std::string& device, const Node& because) {
  Node* child_enter = nullptr;
  std::string frame = innermost;
  while (!frame.empty()) {
    const std::string key = LoopKey(frame, device);
    if (const auto it = loops_.find(key); it != loops_.end()) {
      if (child_enter == nullptr) return absl::OkStatus();
      return graph_->AddEdge(it->second.merge, 0, child_enter, 0).status();
    }
    const auto cond = loop_conds_.find(frame);
    if (cond == loop_conds_.end()) {
      return because.At(InvalidArgument("a value of the node goes to ", device, " inside loop '", frame,
                                        "'; the loop has no LoopCond, so it cannot span devices"));
    }
    const Node& enter = *enters_[frame];
    TROUPE_ASSIGN_OR_RETURN(const Loop loop, MakeLoop(enter, cond->second, device));
    loops_[key] = loop;
    if (child_enter != nullptr) TROUPE_RETURN_IF_ERROR(graph_->AddEdge(loop.merge, 0, child_enter, 0).status());
    child_enter = loop.enter;
    frame = info_[info_[enter.id()].parent_frame->id()].frame_name;
  }
  if (child_enter == nullptr) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(Node* const start,
                          graph_->AddNode(graph_->UniqueName(StrCat(child_enter->name(), "_start")), "Const",
                                          {{"dtype", DType::kInt32}, {"value", Tensor::Scalar<int32_t>(0)}}));
  start->set_assigned_device(device);
  return graph_->AddEdge(start, 0, child_enter, 0).status();
}

absl::StatusOr<ControlLoops::Loop> ControlLoops::MakeLoop(const Node& enter, Node* loop_cond,
                                                          const std::string& device) {
  const auto add = [&](std::string_view op, std::string_view suffix, AttrMap attrs) -> absl::StatusOr<Node*> {
    attrs.Set("T", DType::kInt32);
    const std::string name = StrCat(loop_cond->name(), "/_control_loop_", suffix);
    TROUPE_ASSIGN_OR_RETURN(Node* const n, graph_->AddNode(graph_->UniqueName(name), op, std::move(attrs)));
    n->set_assigned_device(device);
    n->set_location(loop_cond->location());
    return n;
  };
  AttrMap enter_attrs;
  for (const char* attr : {"frame_name", "parallel_iterations"}) {
    if (const AttrValue* v = enter.attrs().Find(attr)) enter_attrs.Set(attr, *v);
  }
  Loop loop;
  TROUPE_ASSIGN_OR_RETURN(loop.enter, add("Enter", "enter", std::move(enter_attrs)));
  TROUPE_ASSIGN_OR_RETURN(loop.merge, add("Merge", "merge", {{"N", 2}}));
  TROUPE_ASSIGN_OR_RETURN(Node* const fork, add("Switch", "switch", {}));
  TROUPE_ASSIGN_OR_RETURN(Node* const next, add("NextIteration", "next", {}));
  TROUPE_RETURN_IF_ERROR(graph_->AddEdge(loop.enter, 0, loop.merge, 0).status());
  TROUPE_RETURN_IF_ERROR(graph_->AddEdge(next, 0, loop.merge, 1).status());
  TROUPE_RETURN_IF_ERROR(graph_->AddEdge(loop.merge, 0, fork, 0).status());
  TROUPE_RETURN_IF_ERROR(graph_->AddEdge(loop_cond, 0, fork, 1).status());
  TROUPE_RETURN_IF_ERROR(graph_->AddEdge(fork, 1, next, 0).status());
  return loop;
}

}  // namespace troupe
