#include "graph/passes/run_order.h"

namespace troupe {

std::vector<Node*> RunOrder(const Graph& graph) {
  const std::vector<Node*> nodes = graph.op_nodes();
  std::vector<int> missing(graph.num_node_ids(), 0);
  std::vector<Node*> stack, order, queue;
  size_t head = 0;
  std::vector<bool> done(graph.num_node_ids(), false);
  const auto loaned = [](const Node* n) { return n->IsConstant() && n->in_edges().empty(); };
  for (Node* n : nodes) {
    for (const Edge* e : n->in_edges()) missing[n->id()] += e->src->IsOp() && !loaned(e->src);
  }
  for (size_t i = nodes.size(); i-- > 0;) {
    if (missing[nodes[i]->id()] == 0 && !loaned(nodes[i])) stack.push_back(nodes[i]);
  }
  order.reserve(nodes.size());
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
    const auto group = [](const Edge& e) { return e.IsControl() ? 2 : ReadsOnlyShape(e) ? 1 : 0; };
    for (int now = 0; now < 3; ++now) {
      for (const Edge* e : n->out_edges()) {
        if (group(*e) == now && e->dst->IsOp() && --missing[e->dst->id()] == 0) ready.push_back(e->dst);
      }
    }
  }
  for (Node* n : nodes) {
    if (!done[n->id()]) order.push_back(n);
  }
  return order;
}

}  // namespace troupe
