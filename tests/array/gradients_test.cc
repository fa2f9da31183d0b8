// Gradients of array ops that end on purpose. What TensorFlow computes stands in cases/gradients.
#include <boost/test/unit_test.hpp>

#include "troupe/gradients.h"
#include "troupe/node_builder.h"

namespace troupe::test {
namespace gradients_test {

NodeOut Constant(Graph* graph, const Tensor& value) {
  auto node = NodeBuilder(graph, "const", "Const").Attr("dtype", value.dtype()).Attr("value", value).Build();
  BOOST_REQUIRE_MESSAGE(node.ok(), std::string(node.status().message()));
  return {*node, 0};
}

BOOST_AUTO_TEST_CASE(gradients_stop_where_they_must) {
  Graph graph;
  const NodeOut x = Constant(&graph, Tensor::Vector<float>({1, 2}));
  Node* stop = *NodeBuilder(&graph, "stop", "StopGradient").Input(x).Build();
  Node* prevent = *NodeBuilder(&graph, "prevent", "PreventGradient").Input(x).Attr("message", "not yet").Build();
  std::vector<NodeOut> grads;
  GradientOptions options;
  options.unconnected = Unconnected::kNone;
  BOOST_REQUIRE(
      AddGradients(&graph, std::vector<NodeOut>{{stop, 0}}, std::vector<NodeOut>{x}, {}, options, &grads).ok());
  BOOST_CHECK(!grads[0].valid());
  const absl::Status s =
      AddGradients(&graph, std::vector<NodeOut>{{prevent, 0}}, std::vector<NodeOut>{x}, {}, options, &grads);
  BOOST_CHECK(std::string(s.message()).find("not yet") != std::string::npos);
}

}  // namespace gradients_test
}  // namespace troupe::test
