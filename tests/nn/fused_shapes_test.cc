// What the graph knows of a shape may be wrong when it runs: a variable may be given a value of
// another shape than its own. Fused nodes then give the values, or the error, of the separate ones.
#include "tests/common/run_text.h"

namespace troupe {
namespace fused_shapes_test {

// `name`, which the graph takes for of the shape `known`, has the value of the placeholder
// `in_<name>`.
std::string Variable(const std::string& name, const std::string& known) {
  return StrCat("in_", name, " = Placeholder[dtype=float32]\n", name, "_ref = VariableV2[shape=", known,
                ", dtype=float32]\n", name, "_set = Assign[validate_shape=false](", name, "_ref, in_", name, ")\n",
                name, " = Identity(", name, "_ref, ^", name, "_set)\n");
}

// The fused graph has `op`, the other one has not, and both have one result. Returns whether it is
// a value.
bool CheckSame(const std::string& text, const Feeds& feeds, const std::string& op) {
  const Result off = RunText(text, feeds, {"y"}, false), on = RunText(text, feeds, {"y"}, true);
  BOOST_TEST(!Has(off, op), off.ops);
  BOOST_TEST(on.status.ToString() == off.status.ToString());
  if (!on.status.ok() || !off.status.ok()) return false;
  BOOST_TEST(Has(on, op), on.ops);
  BOOST_TEST(SameBits(on.values[0], off.values[0]), on.values[0].shape().DebugString()
                                                        << " and " << off.values[0].shape().DebugString());
  return true;
}

BOOST_AUTO_TEST_SUITE(fused_shapes)

BOOST_AUTO_TEST_CASE(a_vector_behind_a_product_that_is_none) {
  constexpr int64_t kRows = 6, kColumns = 23;
  const TensorShape shapes[] = {TensorShape({kColumns}),
                                TensorShape({1}),
                                TensorShape({}),
                                TensorShape({kRows, kColumns}),
                                TensorShape({kRows, 1}),
                                TensorShape({1, kColumns}),
                                TensorShape({2, 1, kColumns}),
                                TensorShape({kColumns - 1}),
                                TensorShape({0}),
                                TensorShape({2, kColumns}),
                                TensorShape({0, kColumns}),
                                TensorShape({0, 1, 1})};
  const std::string graph =
      StrCat("x = Placeholder[dtype=float32]\n", Variable("w", "[5,23]"), Variable("v", "[23]"), "m = MatMul(x, w)\n");
  int values = 0, errors = 0;
  for (const char* sum : {"AddV2(m, v)", "Add(v, m)", "BiasAdd(m, v)"}) {
    for (const char* tail : {"y = Identity(a)", "y = Relu(a)", "y = LeakyRelu[alpha=0.3](a)", "y = Tanh(a)"}) {
      for (const TensorShape& shape : shapes) {
        BOOST_TEST_CONTEXT(sum << ", " << tail << ", " << shape.DebugString()) {
          const bool value = CheckSame(StrCat(graph, "a = ", sum, "\n", tail),
                                       {{"x", Random(TensorShape({kRows, 5}), 1)},
                                        {"in_w", Random(TensorShape({5, kColumns}), 2)},
                                        {"in_v", Random(shape, 3)}},
                                       "_FusedMatMul");
          ++(value ? values : errors);
        }
      }
    }
  }
  BOOST_TEST(values == 4 * (8 + 8 + 1) + 0);
  BOOST_TEST(errors == 4 * (4 + 4 + 11));
}

// The product, too, may have other columns than the graph knows.
BOOST_AUTO_TEST_CASE(a_product_of_other_columns) {
  const std::string graph = StrCat("x = Placeholder[dtype=float32]\n", Variable("w", "[5,23]"), Variable("v", "[23]"),
                                   "m = MatMul(x, w)\na = AddV2(m, v)\ny = Relu6(a)");
  for (const int64_t columns : {1, 4, 23}) {
    CheckSame(graph,
              {{"x", Random(TensorShape({6, 5}), 1)},
               {"in_w", Random(TensorShape({5, columns}), 2)},
               {"in_v", Random(TensorShape({23}), 3)}},
              "_FusedMatMul");
  }
}

// The axis that is the last one of what the graph knows is another one, or none.
BOOST_AUTO_TEST_CASE(an_axis_that_is_not_the_last_one) {
  int values = 0, errors = 0;
  for (const char* axis : {"int32{1}", "int32[1]{1}", "int64[1]{1}", "int32[1]{-1}"}) {
    for (const char* fold : {"Sum", "Mean"}) {
      const std::string text =
          StrCat(Variable("x", "[40,30]"), "axis = Const[value=", axis, "]\ns = Square(x)\nf = ", fold,
                 "[keep_dims=true](s, axis)\nr = Sqrt(f)\ny = RealDiv(x, r)");
      for (const TensorShape& shape :
           {TensorShape({40, 30}), TensorShape({9, 1}), TensorShape({8, 5, 30}), TensorShape({2, 30, 6, 7}),
            TensorShape({3, 0, 4}), TensorShape({64}), TensorShape({})}) {
        BOOST_TEST_CONTEXT(fold << " over " << axis << " of " << shape.DebugString()) {
          const bool value = CheckSame(text, {{"in_x", Uniform(shape, 0.5f, 2, 1)}}, "_FusedElementwise");
          ++(value ? values : errors);
        }
      }
    }
  }
  BOOST_TEST(values == 2 * (3 * 5 + 6));
  BOOST_TEST(errors == 2 * (3 * 2 + 1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fused_shapes_test
}  // namespace troupe
