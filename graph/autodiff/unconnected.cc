// An x without a gradient: what is wrong with it, and what was likely meant.
#include <deque>

#include "graph/autodiff/backprop.h"

namespace troupe::autodiff {
namespace {

// The variable whose value `v` is, read and handed on; invalid when it is none.
NodeOut VariableOf(NodeOut v) {
  while (v.valid()) {
    const Node* n = v.node;
    if (n->op().Has(OpTrait::kVariable)) return v;
    const bool hands_on =
        n->op().Has(OpTrait::kReadsVariable) || n->op().Has(OpTrait::kForwardsInput) || n->IsEnter() || n->IsSwitch();
    if (!hands_on || n->num_inputs() == 0) return {};
    v = n->input(0);
  }
  return {};
}

// By node id: whether it is one of `ys`' nodes, or data flows from it to one.
std::vector<char> Upstream(const Graph& graph, absl::Span<const NodeOut> ys) {
  std::vector<char> seen(graph.num_node_ids(), 0);
  std::deque<const Node*> queue;
  const auto visit = [&](const Node* n) {
    if (seen[n->id()]) return;
    seen[n->id()] = true;
    queue.push_back(n);
  };
  for (NodeOut y : ys) visit(y.node);
  for (; !queue.empty(); queue.pop_front()) {
    for (const Edge* e : queue.front()->in_edges()) {
      if (!e->IsControl()) visit(e->src);
    }
  }
  return seen;
}

bool PassesNothing(const Node* n) { return n->op().Has(OpTrait::kNoGradientFlows); }

}  // namespace

absl::Status Backprop::NotConnected(absl::Span<const NodeOut> ys, const GradientSource& source) const {
  const NodeOut x = source.outside;
  if (ys.empty()) return InvalidArgument("there are no ys, so that nothing depends on '", x.ToString(), "'");
  const std::string all = ys.size() == 1 ? StrCat("'", ys[0].ToString(), "' does not depend on '")
                                         : StrCat("none of ", ys.size(), " ys depends on '");
  std::string text = StrCat(all, x.ToString(), "'");
  const std::vector<char> upstream = Upstream(*graph_, ys);
  const NodeOut variable = VariableOf(x);
  if (variable.valid() && variable != x && upstream[variable.node->id()]) {
    return InvalidArgument(text, "; it does on the variable '", variable.node->name(),
                           "': pass the Variable or its handle()");
  }
  // Where what flows from x is last seen before it carries a gradient no more.
  std::vector<char> seen(graph_->num_node_ids(), 0);
  std::deque<const Node*> queue;
  const Node* cut = nullptr;
  const auto follow = [&](NodeOut t) {
    for (const Edge* e : t.node->out_edges()) {
      if (e->src_output != t.index || !upstream[e->dst->id()] || seen[e->dst->id()]) continue;
      seen[e->dst->id()] = true;
      queue.push_back(e->dst);
    }
  };
  const bool x_is_y = upstream[x.node->id()] && [&] {
    for (NodeOut part : source.parts) follow(part);
    return !queue.empty();
  }();
  for (; !queue.empty() && cut == nullptr; queue.pop_front()) {
    const Node* n = queue.front();
    if (PassesNothing(n)) cut = n;
    for (int i = 0; i < n->num_outputs(); ++i) {
      const NodeOut t{const_cast<Node*>(n), i};
      if (!Carries(t) || stops_.contains(t)) cut = cut == nullptr ? n : cut;
      follow(t);
    }
  }
  if (x_is_y) {
    const std::string where =
        cut == nullptr ? std::string() : StrCat(": node '", cut->name(), "' (", cut->op().name, ") hands none on");
    text = StrCat(ys.size() == 1 ? StrCat("'", ys[0].ToString(), "' depends") : StrCat(ys.size(), " ys depend"),
                  " on '", x.ToString(), "' only through values that carry no gradient", where);
  } else {
    for (NodeOut y : ys) {
      if (Upstream(*graph_, {&x, 1})[y.node->id()] && y.node != x.node)
        return InvalidArgument(text, "; '", x.ToString(), "' depends on '", y.ToString(),
                               "': are ys and xs in each other's place?");
    }
  }
  return InvalidArgument(text, "; GradientOptions::unconnected asks for zeros, or for no gradient, instead");
}

}  // namespace troupe::autodiff
