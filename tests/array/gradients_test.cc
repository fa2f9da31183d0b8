// Every case of gradient_cases.txt: gradients that TensorFlow computes for the same op, inputs and
// incoming gradients, through the gradient that the op's file registers and the nodes that it
// builds.
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>

#include "kernels/evaluate.h"
#include "tests/array/case_file.h"
#include "troupe/gradients.h"
#include "troupe/node_builder.h"

namespace troupe::test {
namespace {

// Evaluates graphs without loops, node by node.
class Evaluator {
 public:
  absl::StatusOr<Tensor> Value(NodeOut out) {
    TROUPE_RETURN_IF_ERROR(Run(out.node));
    return values_.at(out.node)[static_cast<size_t>(out.index)];
  }

 private:
  absl::Status Run(Node* node) {
    if (values_.count(node) != 0) return absl::OkStatus();
    std::vector<Tensor> inputs;
    for (int i = 0; i < node->num_inputs(); ++i) {
      TROUPE_ASSIGN_OR_RETURN(Tensor t, Value(node->input(i)));
      inputs.push_back(std::move(t));
    }
    TROUPE_ASSIGN_OR_RETURN(values_[node], EvaluateNode(*node, std::move(inputs)));
    return absl::OkStatus();
  }
  std::map<Node*, std::vector<Tensor>> values_;
};

NodeOut Constant(Graph* graph, const Tensor& value) {
  auto node = NodeBuilder(graph, "const", "Const").Attr("dtype", value.dtype()).Attr("value", value).Build();
  BOOST_REQUIRE_MESSAGE(node.ok(), std::string(node.status().message()));
  return {*node, 0};
}

// The node of `c` with constants as inputs.
Node* BuildCase(Graph* graph, const Case& c, std::vector<NodeOut>* inputs) {
  for (const Tensor& t : c.inputs) inputs->push_back(Constant(graph, t));
  NodeBuilder builder(graph, "op", c.op);
  for (const auto& [name, value] : c.attrs) builder.Attr(name, value);
  auto def = OpRegistry::Global().LookUp(c.op);
  BOOST_REQUIRE_MESSAGE(def.ok(), std::string(def.status().message()));
  size_t next = 0, list = 0;
  for (const ArgDef& arg : (*def)->inputs) {
    if (!arg.IsList()) {
      builder.Input((*inputs)[next++]);
      continue;
    }
    const auto n = static_cast<size_t>(c.list_sizes[list++]);
    builder.InputList(std::vector<NodeOut>(inputs->begin() + next, inputs->begin() + next + n));
    next += n;
  }
  auto node = builder.Build();
  BOOST_REQUIRE_MESSAGE(node.ok(), std::string(node.status().message()));
  return *node;
}

void RunCase(const Case& c) {
  Graph graph;
  std::vector<NodeOut> inputs, ys, xs, grad_ys, grads;
  Node* node = BuildCase(&graph, c, &inputs);
  for (int i = 0; i < node->num_outputs(); ++i) {
    if (IsDifferentiable(node->output_type(i))) ys.push_back({node, i});
  }
  for (const NodeOut& in : inputs) {
    if (IsDifferentiable(in.dtype())) xs.push_back(in);
  }
  for (const Tensor& t : c.outputs) grad_ys.push_back(Constant(&graph, t));
  GradientOptions options;
  options.unconnected = Unconnected::kNone;
  const absl::Status s = AddGradients(&graph, ys, xs, grad_ys, options, &grads);
  BOOST_REQUIRE_MESSAGE(s.ok(), std::string(s.message()));
  BOOST_REQUIRE_EQUAL(grads.size(), c.grads.size());
  Evaluator evaluator;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!c.grads[i].valid()) {
      BOOST_CHECK_MESSAGE(!grads[i].valid(), "input " << i << " should get no gradient");
      continue;
    }
    BOOST_REQUIRE_MESSAGE(grads[i].valid(), "input " << i << " gets no gradient");
    const auto got = evaluator.Value(grads[i]);
    BOOST_REQUIRE_MESSAGE(got.ok(), std::string(got.status().message()));
    const std::string difference = Difference(*got, c.grads[i], 1e-6);
    BOOST_CHECK_MESSAGE(difference.empty(), "gradient of input " << i << ": " << difference);
  }
}

BOOST_AUTO_TEST_CASE(gradients_equal_tensorflow) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/tests/array/gradient_cases.txt");
  BOOST_REQUIRE(in.good());
  int count = 0;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    BOOST_TEST_CONTEXT("line " << number << ": " << line) RunCase(ParseCase(line, number));
    ++count;
  }
  BOOST_CHECK_GT(count, 40);
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

}  // namespace
}  // namespace troupe::test
