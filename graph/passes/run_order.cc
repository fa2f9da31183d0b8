#include "graph/passes/run_order.h"

#include <algorithm>
#include <utility>

namespace troupe {

std::vector<uint32_t> Heights(const Graph& graph) {
  std::vector<uint32_t> heights(graph.num_node_ids(), 0), missing(graph.num_node_ids(), 0);
  std::vector<const Node*> stack;
  for (const Node* n : graph.op_nodes()) {
    for (const Edge* e : n->out_edges()) missing[n->id()] += e->dst->IsOp();
    if (missing[n->id()] == 0) stack.push_back(n);
  }
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    for (const Edge* e : n->in_edges()) {
      if (!e->src->IsOp()) continue;
      const int src = e->src->id();
      heights[src] = std::max(heights[src], heights[n->id()] + 1);
      if (--missing[src] == 0) stack.push_back(e->src);
    }
  }
  return heights;
}

std::vector<Node*> RunOrder(const Graph& graph, const std::vector<uint32_t>& heights) {
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
  std::vector<std::pair<std::pair<int, uint32_t>, const Edge*>> data;
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
    const auto give = [&](const Edge* e) {
      if (e->dst->IsOp() && --missing[e->dst->id()] == 0) ready.push_back(e->dst);
    };
    data.clear();
    for (const Edge* e : n->out_edges()) {
      if (!e->IsControl() && e->dst->IsOp()) data.emplace_back(std::pair(e->src_output, PlaceOf(*e, heights)), e);
    }
    if (data.size() > 1) {
      std::stable_sort(data.begin(), data.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    for (const auto& [place, e] : data) give(e);
    for (const Edge* e : n->out_edges()) {
      if (e->IsControl()) give(e);
    }
  }
  for (Node* n : nodes) {
    if (!done[n->id()]) order.push_back(n);
  }
  return order;
}

}  // namespace troupe
