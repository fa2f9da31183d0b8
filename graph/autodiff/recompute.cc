#include "graph/autodiff/recompute.h"

#include <algorithm>
#include <utility>

#include "graph/ir/name_attrs.h"
#include "troupe/node_builder.h"

namespace troupe::autodiff {

absl::Status Recompute::Run() {
  const bool by_scope = !options_.scopes.empty(), by_budget = options_.budget_bytes != 0;
  if (!by_scope && !by_budget) return absl::OkStatus();
  if (by_scope && by_budget)
    return InvalidArgument("what to recompute is told by scopes or by a budget of bytes, not by both");
  if (options_.budget_bytes < 0)
    return InvalidArgument("the budget for recomputing must be positive, not ", options_.budget_bytes, " bytes");
  if (options_.assumed_dimension < 1)
    return InvalidArgument("unknown dimensions must be assumed to be at least 1, not ", options_.assumed_dimension);
  TROUPE_RETURN_IF_ERROR(FindUses());
  Plan plan;
  TROUPE_RETURN_IF_ERROR(by_scope ? DivideByScopes(&plan) : DivideByBudget(&plan));
  return AddCopies(plan);
}

absl::StatusOr<Node*> Recompute::Barrier(NodeOut value, int segment) {
  auto& of_value = barriers_[value];
  for (const auto& [s, node] : of_value) {
    if (s == segment) return node;
  }
  NodeBuilder b(walk_.graph, StrCat(walk_.prefix, "/recompute/", value.node->name(), "/kept"), "Identity");
  b.Input(value).Device(value.node->requested_device()).Location(value.node->location());
  TROUPE_ASSIGN_OR_RETURN(Node * node, b.Build());
  of_value.emplace_back(segment, node);
  barriers_in_[segment].push_back(node);
  return node;
}

absl::Status Recompute::CopyOf(Node* n, const Plan& plan) {
  const int segment = SegmentOf(n, plan.segments);
  TROUPE_ASSIGN_OR_RETURN(
      Node * copy, walk_.graph->CopyNode(*n, walk_.graph->UniqueName(StrCat(walk_.prefix, "/recompute/", n->name()))));
  copy_of_[n->id()] = copy;
  if (!copy->attrs().Has(kRecomputesAttr)) copy->SetAttr(kRecomputesAttr, std::vector<std::string>{n->name()});
  std::vector<NodeOut> inputs;
  int held_back = 0, first_outside = kNone;
  for (int i = 0; i < n->num_inputs(); ++i) {
    NodeOut in = n->input(i);
    if (IsCopied(in, plan)) {
      in.node = copy_of_[in.node->id()];
      ++held_back;
    } else if (Weighs(in.node)) {
      TROUPE_ASSIGN_OR_RETURN(in.node, Barrier(in, segment));
      in.index = 0;
      ++held_back;
    } else if (first_outside == kNone && !in.node->IsConstant()) {
      first_outside = i;
    }
    inputs.push_back(in);
  }
  if (held_back == 0 && first_outside != kNone) {
    TROUPE_ASSIGN_OR_RETURN(Node * barrier, Barrier(inputs[first_outside], segment));
    inputs[first_outside] = {barrier, 0};
  }
  for (int i = 0; i < n->num_inputs(); ++i) {
    TROUPE_RETURN_IF_ERROR(walk_.graph->AddEdge(inputs[i], copy, i).status());
  }
  return absl::OkStatus();
}

absl::Status Recompute::AddCopies(const Plan& plan) {
  barriers_in_.resize(plan.num_segments);
  for (Node* n : order_) {
    if (plan.copied[n->id()]) TROUPE_RETURN_IF_ERROR(CopyOf(n, plan));
  }
  for (const Use& u : uses_) {
    if (!ReadsCopy(u, plan)) continue;
    const NodeOut copy{copy_of_[u.value.node->id()], u.value.index};
    TROUPE_RETURN_IF_ERROR(walk_.graph->UpdateEdge(copy, u.reader, u.input));
  }
  return OrderCopies(plan);
}

absl::Status Recompute::OrderCopies(const Plan& plan) {
  std::vector<int> segments;                                   // in the order of their first readers
  std::vector<std::vector<Node*>> readers(plan.num_segments);  // of copies
  // What is to run before the next segment: what reads forward values, and results, beside the
  // segments, and then those of the last segment. They hold gradients, which are as large.
  std::vector<Node*> before;
  std::vector<std::vector<Node*>> of_segment(plan.num_segments);
  const auto add = [&](Node* n, int segment) { (segment == kNone ? before : of_segment[segment]).push_back(n); };
  for (Node* n : order_) {
    const bool used =
        std::any_of(n->out_edges().begin(), n->out_edges().end(), [](const Edge* e) { return e->dst->IsOp(); });
    if (is_gradient_[n->id()] && !used) add(n, SegmentOf(n, plan.segments));
  }
  for (const Use& u : uses_) {
    if (Weighs(u.value.node)) add(u.reader, u.reader_segment);
    if (!ReadsCopy(u, plan)) continue;
    if (readers[u.reader_segment].empty()) segments.push_back(u.reader_segment);
    readers[u.reader_segment].push_back(u.reader);
  }
  std::vector<int> seen(walk_.graph->num_node_ids(), kNone);
  for (const int s : segments) {
    std::vector<const Node*> stack(barriers_in_[s].begin(), barriers_in_[s].end());
    for (const Node* n : stack) seen[n->id()] = s;
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      const auto visit = [&](const Node* to) {
        if (std::exchange(seen[to->id()], s) != s) stack.push_back(to);
      };
      for (const Edge* e : n->out_edges()) visit(e->dst);
      if (const auto it = after_.find(n->id()); it != after_.end()) {
        for (const Node* turn : it->second) visit(turn);
      }
    }
    std::vector<Node*> first;  // what the barriers wait for
    for (const Edge* e : readers[s].front()->in_edges()) {
      const bool seed = !e->IsControl() && walk_.seeds->contains({e->src, e->src_output});
      if (!IsNew(e->src) && (seed || is_gradient_[e->src->id()])) first.push_back(e->src);
    }
    first.insert(first.end(), before.begin(), before.end());
    std::erase_if(first, [&](const Node* n) { return seen[n->id()] == s || may_be_dead_[n->id()]; });
    std::sort(first.begin(), first.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
    first.erase(std::unique(first.begin(), first.end()), first.end());
    if (!first.empty()) {
      std::vector<std::string> names;
      for (const Node* n : first) names.emplace_back(n->name());
      TROUPE_ASSIGN_OR_RETURN(Node * turn, NodeBuilder(walk_.graph, StrCat(walk_.prefix, "/recompute/turn"), "NoOp")
                                               .Attr(kAfterAttr, std::move(names))
                                               .Build());
      // For the next segments' sake the graph is looked at as if the edges were there.
      for (Node* n : first) after_[n->id()].push_back(turn);
      for (Node* barrier : barriers_in_[s]) walk_.graph->AddControlEdgeUnchecked(turn, barrier);
      seen.resize(walk_.graph->num_node_ids(), kNone);
    }
    before = std::move(of_segment[s]);
  }
  return absl::OkStatus();
}

}  // namespace troupe::autodiff
