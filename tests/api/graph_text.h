// Graphs as text, one line a node, so that a test can say what it expects.
#ifndef TROUPE_TESTS_API_GRAPH_TEXT_H_
#define TROUPE_TESTS_API_GRAPH_TEXT_H_

#include <algorithm>
#include <string>
#include <vector>

#include "troupe/scope.h"

namespace troupe::test {

// "name = Op(in:0, in2:1, ^control)", in the order of building; control inputs sorted.
inline std::string NodeText(const Node& n) {
  std::vector<std::string> in;
  for (int i = 0; i < n.num_inputs(); ++i) {
    const NodeOut o = n.input(i);
    in.push_back(!o.valid() ? std::string("?") : o.index == 0 ? o.node->name() : o.ToString());
  }
  std::vector<std::string> control;
  for (const Edge* e : n.in_edges()) {
    if (e->IsControl() && e->src->IsOp()) control.push_back("^" + e->src->name());
  }
  std::sort(control.begin(), control.end());
  in.insert(in.end(), control.begin(), control.end());
  return StrCat(n.name(), " = ", n.op().name, "(", StrJoin(in, ", "), ")");
}

inline std::string GraphText(const Graph& g) {
  std::string text;
  for (const Node* n : g.op_nodes()) StrAppend(&text, NodeText(*n), "\n");
  return text;
}

}  // namespace troupe::test

#endif  // TROUPE_TESTS_API_GRAPH_TEXT_H_
