// Ops with which the structure of gradients is tested: their gradients are one node each, so the
// text of a graph stays short.
#ifndef TROUPE_TESTS_AUTODIFF_TEST_OPS_H_
#define TROUPE_TESTS_AUTODIFF_TEST_OPS_H_

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "troupe/gradients.h"
#include "troupe/text.h"

namespace troupe::testing {

struct Differentiated {
  std::unique_ptr<Graph> graph;
  absl::Status status;
  std::vector<NodeOut> grads;
  std::string added;  // the new nodes as text

  // "name:0", or "none".
  std::string Grad(int i) const { return grads[i].valid() ? grads[i].ToString() : "none"; }
};

inline NodeOut Tensor_(const Graph& g, const std::string& name) {
  const auto parsed = ParseTensorName(name);
  BOOST_REQUIRE_MESSAGE(parsed.ok(), name);
  Node* n = g.Find(parsed->first);
  BOOST_REQUIRE_MESSAGE(n != nullptr, "no node " << name);
  return {n, parsed->second};
}

inline std::vector<NodeOut> Tensors(const Graph& g, const std::vector<std::string>& names) {
  std::vector<NodeOut> list;
  for (const std::string& n : names) list.push_back(n.empty() ? NodeOut{} : Tensor_(g, n));
  return list;
}

inline Differentiated Differentiate(std::string_view text, const std::vector<std::string>& ys,
                                    const std::vector<std::string>& xs, GradientOptions options = {},
                                    const std::vector<std::string>& grad_ys = {},
                                    const std::vector<std::string>& stop = {}) {
  Differentiated d;
  auto graph = ParseGraphText(text);
  BOOST_REQUIRE_MESSAGE(graph.ok(), graph.status().ToString());
  d.graph = *std::move(graph);
  const int before = d.graph->num_node_ids();
  options.name = "g";
  options.stop_gradients = Tensors(*d.graph, stop);
  d.status = AddGradients(d.graph.get(), Tensors(*d.graph, ys), Tensors(*d.graph, xs), Tensors(*d.graph, grad_ys),
                          options, &d.grads);
  for (int id = before; id < d.graph->num_node_ids(); ++id) {
    if (const Node* n = d.graph->node(id)) d.added += NodeText(*n) + "\n";
  }
  if (d.status.ok()) {
    const absl::Status valid = d.graph->Validate();
    BOOST_CHECK_MESSAGE(valid.ok(), valid.ToString());
  }
  return d;
}
inline Differentiated MustDifferentiate(std::string_view text, const std::vector<std::string>& ys,
                                        const std::vector<std::string>& xs, GradientOptions options = {},
                                        const std::vector<std::string>& grad_ys = {},
                                        const std::vector<std::string>& stop = {}) {
  Differentiated d = Differentiate(text, ys, xs, std::move(options), grad_ys, stop);
  BOOST_REQUIRE_MESSAGE(d.status.ok(), d.status.ToString());
  return d;
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_AUTODIFF_TEST_OPS_H_
