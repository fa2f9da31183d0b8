// Shape functions. What they infer from the cases of cases/values/array.txt must agree with what
// the kernels give, with every input's shape and constant value known, with shapes only, and with
// dimensions unknown; and a table says what they must infer from partial shapes.
#include <boost/test/unit_test.hpp>

#include "tests/cases/same_value.h"
#include "troupe/node_builder.h"
#include "troupe/shape_inference.h"

namespace troupe::test {
namespace shapes_test {

Node* Build(Graph* graph, const Case& c) {
  NodeBuilder builder(graph, "op", c.op);
  for (const auto& [name, value] : c.attrs) builder.Attr(name, value);
  const OpDef* def = OpRegistry::Global().Find(c.op);
  BOOST_REQUIRE_MESSAGE(def != nullptr, "no op " << c.op);
  size_t next = 0, list = 0;
  auto source = [&](const Tensor& t) {
    auto node = NodeBuilder(graph, "in", "Placeholder").Attr("dtype", t.dtype()).Build();
    BOOST_REQUIRE(node.ok());
    return NodeOut{*node, 0};
  };
  for (const ArgDef& arg : def->inputs) {
    if (!arg.IsList()) {
      builder.Input(source(c.inputs[next++]));
      continue;
    }
    std::vector<NodeOut> outs;
    for (int n = c.list_sizes[list++]; n > 0; --n) outs.push_back(source(c.inputs[next++]));
    builder.InputList(std::move(outs));
  }
  auto node = builder.Build();
  BOOST_REQUIRE_MESSAGE(node.ok(), std::string(node.status().message()));
  return *node;
}

enum class Know { kValues, kShapes, kRanks, kNothing };

// Infers the outputs' shapes and checks that the real ones fit; `exact`: that they are fully known.
void Check(const Case& c, Know know) {
  Graph graph;
  Node* node = Build(&graph, c);
  std::vector<PartialTensorShape> shapes;
  for (const Tensor& t : c.inputs) {
    shapes.push_back(know == Know::kNothing ? PartialTensorShape()
                     : know == Know::kRanks ? PartialTensorShape::OfRank(t.rank())
                                            : PartialTensorShape(t.shape()));
  }
  InferenceContext ctx(*node, shapes);
  for (size_t i = 0; i < c.inputs.size() && know == Know::kValues; ++i)
    ctx.set_input_tensor(static_cast<int>(i), c.inputs[i]);
  const absl::Status s = node->op().shape_fn(ctx);
  BOOST_CHECK_MESSAGE(s.ok(), std::string(s.message()));
  for (size_t i = 0; s.ok() && i < c.outputs.size(); ++i) {
    const PartialTensorShape& got = ctx.output(static_cast<int>(i));
    BOOST_CHECK_MESSAGE(got.IsCompatibleWith(c.outputs[i].shape()), "output " << i << ": inferred " << got.DebugString()
                                                                              << " for "
                                                                              << c.outputs[i].shape().DebugString());
    // These outputs' sizes depend on values that a shape function does not look at.
    const bool by_value = c.op == "Where" || c.op.rfind("Unique", 0) == 0 || c.op == "ListDiff" ||
                          c.op == "DynamicPartition" || c.op == "BroadcastGradientArgs";
    if (know == Know::kValues && !by_value) {
      BOOST_CHECK_MESSAGE(got.IsFullyDefined() || c.op == "Reshape",
                          "output " << i << ": inferred only " << got.DebugString());
    }
  }
}

BOOST_AUTO_TEST_CASE(inferred_shapes_fit_what_kernels_give) {
  for (const Case& c : ReadCases("values/array.txt")) {
    for (Know know : {Know::kValues, Know::kShapes, Know::kRanks, Know::kNothing}) {
      BOOST_TEST_CONTEXT(c.where << ", knowledge " << static_cast<int>(know) << ": " << c.text) Check(c, know);
    }
  }
}

struct PartialCase {
  const char* text;                        // inputs whose values are known are those in `constant`
  std::vector<PartialTensorShape> inputs;  // their shapes as known
  std::vector<int> constant;
  PartialTensorShape output;
};

BOOST_AUTO_TEST_CASE(partial_shapes) {
  const int64_t u = -1;
  const PartialCase cases[] = {
      {"Reshape | float32[]{0} ; int32[2]{-1 3}", {{u, 6}, {2}}, {1}, {u, 3}},
      {"Reshape | float32[]{0} ; int32[2]{-1 3}", {{2, 6}, {2}}, {1}, {4, 3}},
      {"Reshape | float32[]{0} ; int32[2]{0 0}", {{2, 6}, {2}}, {}, {u, u}},
      {"ExpandDims | float32[]{0} ; int32[]{-1}", {{u, 6}, PartialTensorShape::OfRank(0)}, {1}, {u, 6, 1}},
      {"Squeeze squeeze_dims={1} | float32[]{0}", {{3, u, u}}, {}, {3, u}},
      {"Squeeze | float32[]{0}", {{3, u, 1}}, {}, {}},
      {"ConcatV2 <2> | float32[]{0} ; float32[]{0} ; int32[]{1}",
       {{u, 2}, {3, u}, PartialTensorShape::OfRank(0)},
       {2},
       {3, u}},
      {"ConcatV2 <2> | float32[]{0} ; float32[]{0} ; int32[]{1}",
       {{u, 2}, {3, 4}, PartialTensorShape::OfRank(0)},
       {2},
       {3, 6}},
      {"Slice | float32[]{0} ; int32[2]{1 0} ; int32[2]{2 -1}", {{u, 5}, {2}, {2}}, {1, 2}, {2, 5}},
      {"StridedSlice begin_mask=1 end_mask=1 shrink_axis_mask=2 | float32[]{0} ; int32[2]{0 1} ; "
       "int32[2]{0 2} ; int32[2]{1 1}",
       {{u, 5, 7}, {2}, {2}, {2}},
       {1, 2, 3},
       {u, 7}},
      {"StridedSlice | float32[]{0} ; int32[1]{1} ; int32[1]{-1} ; int32[1]{2}",
       {{6, u}, {1}, {1}, {1}},
       {1, 2, 3},
       {2, u}},
      {"Pack <2> axis=1 | float32[]{0} ; float32[]{0}", {{u, 2}, {3, u}}, {}, {3, 2, 2}},
      {"Unpack num=2 axis=-1 | float32[]{0}", {{u, 2}}, {}, PartialTensorShape{u}},
      {"Tile | float32[]{0} ; int32[2]{2 3}", {{u, 2}, {2}}, {1}, {u, 6}},
      {"Pad | float32[]{0} ; int32[2,2]{1 1 0 2}", {{u, 2}, {2, 2}}, {1}, {u, 4}},
      {"Transpose | float32[]{0} ; int32[2]{1 0}", {{u, 2}, {2}}, {1}, {2, u}},
      {"GatherV2 | float32[]{0} ; int32[1]{0} ; int32[]{1}",
       {{u, 2, 3}, {u}, PartialTensorShape::OfRank(0)},
       {2},
       {u, u, 3}},
      {"OneHot | int32[]{0} ; int32[]{10} ; float32[]{1} ; float32[]{0}",
       {PartialTensorShape{u}, PartialTensorShape::OfRank(0), PartialTensorShape::OfRank(0),
        PartialTensorShape::OfRank(0)},
       {1},
       {u, 10}},
      {"SpaceToDepth block_size=2 | float32[]{0}", {{u, 4, u, 3}}, {}, {u, 2, u, 12}},
  };
  for (const PartialCase& p : cases) {
    BOOST_TEST_CONTEXT(p.text) {
      const Case c = ParseCase(p.text);
      Graph graph;
      Node* node = Build(&graph, c);
      InferenceContext ctx(*node, p.inputs);
      for (int i : p.constant) ctx.set_input_tensor(i, c.inputs[static_cast<size_t>(i)]);
      const absl::Status s = node->op().shape_fn(ctx);
      BOOST_REQUIRE_MESSAGE(s.ok(), std::string(s.message()));
      BOOST_CHECK_MESSAGE(ctx.output(0) == p.output,
                          "inferred " << ctx.output(0).DebugString() << " instead of " << p.output.DebugString());
    }
  }
}

// Shapes that cannot be are refused before anything runs.
BOOST_AUTO_TEST_CASE(impossible_shapes) {
  struct Bad {
    const char* text;
    std::vector<PartialTensorShape> inputs;
  };
  const Bad cases[] = {
      {"ConcatV2 <2> | float32[1,2]{1 2} ; float32[1,3]{1 2 3} ; int32[]{0}", {}},
      {"Pack <2> | float32[1]{1} ; float32[2]{1 2}", {}},
      {"Reshape | float32[3]{1 2 3} ; int32[1]{2}", {}},
      {"Slice | float32[2]{1 2} ; int32[1]{1} ; int32[1]{2}", {}},
      {"Unpack num=3 | float32[2]{1 2}", {}},
      {"Transpose | float32[2]{1 2} ; int32[2]{0 1}", {}},
      {"Split num_split=2 | int32[]{0} ; float32[3]{1 2 3}", {}},
      {"BroadcastTo | float32[2]{1 2} ; int32[1]{3}", {}},
  };
  for (const Bad& b : cases) {
    BOOST_TEST_CONTEXT(b.text) {
      const Case c = ParseCase(b.text);
      Graph graph;
      Node* node = Build(&graph, c);
      std::vector<PartialTensorShape> shapes;
      for (const Tensor& t : c.inputs) shapes.emplace_back(t.shape());
      InferenceContext ctx(*node, shapes);
      for (size_t i = 0; i < c.inputs.size(); ++i) ctx.set_input_tensor(static_cast<int>(i), c.inputs[i]);
      BOOST_CHECK(!node->op().shape_fn(ctx).ok());
    }
  }
}

}  // namespace shapes_test
}  // namespace troupe::test
