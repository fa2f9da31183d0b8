// Gradients of graphs without loops, against finite differences.
#include "tests/autodiff/numeric.h"

namespace troupe::testing {
namespace numeric_test {

Tensor Numbers(std::initializer_list<double> v, const TensorShape& shape) { return Tensor::Of<double>(v, shape); }

struct Net {
  Scope s = Scope::NewRootScope();
  Output x = Source(s, "x", {2, 3}), w = Source(s, "w", {3, 2});
  Feeds feeds = {{"x", Numbers({0.1, -0.7, 1.2, 0.4, 0.9, -1.1}, {2, 3})},
                 {"w", Numbers({1.0, 0.5, -0.3, 0.8, 0.2, -0.6}, {3, 2})}};
};

BOOST_AUTO_TEST_CASE(a_chain_of_ops_has_the_slope_of_differences) {
  Net n;
  CheckGradients(n.s, Op(n.s, "Tanh", {Op(n.s, "MatMul", {n.x, n.w})}), {n.x, n.w}, n.feeds);
}

BOOST_AUTO_TEST_CASE(fan_out_and_fan_in) {
  Net n;
  const Output h = Op(n.s, "MatMul", {n.x, n.w});
  const Output a = Op(n.s, "Tanh", {h}), b = Op(n.s, "Sigmoid", {h}), c = h * a;
  CheckGradients(n.s, a * b + c * c + h, {n.x, n.w}, n.feeds);
}

BOOST_AUTO_TEST_CASE(broadcast_inputs_get_summed_gradients) {
  Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x", {2, 3}), row = Source(s, "row", {3}), col = Source(s, "col", {2, 1}),
               one = Source(s, "one");
  CheckGradients(s, (x + row) * col / (one + 3.0) - row, {x, row, col, one},
                 {{"x", Numbers({1, 2, 3, 4, 5, 6}, {2, 3})},
                  {"row", Numbers({0.5, -1, 2}, {3})},
                  {"col", Numbers({1.5, -2}, {2, 1})},
                  {"one", Numbers({0.7}, {})}});
}

BOOST_AUTO_TEST_CASE(several_targets_add_up) {
  Net n;
  const Output a = Op(n.s, "Tanh", {n.x}), b = n.x * n.x;
  CheckGradients(n.s, a + b, {n.x}, n.feeds, Gradients(n.s, {a, b}, {n.x}));
}

// As tf.reduce_prod writes them: the axes are no constant, but made of constants.
BOOST_AUTO_TEST_CASE(products_over_axes_that_are_computed_from_constants) {
  const std::vector<std::pair<const char*, std::function<Output(const Scope&, const Output&)>>> ways = {
      {"all",
       [](const Scope& s, const Output& x) {
         return Op(s, "Range", {0, Op(s, "Rank", {x}), 1});
       }},
      {"all, by number",
       [](const Scope& s, const Output& x) {
         return Op(s, "Range", {0, x.shape().rank(), 1});
       }},
      {"all, backwards",
       [](const Scope& s, const Output& x) {
         return Op(s, "Range", {x.shape().rank() - 1, -1, -1});
       }},
      {"the last, packed",
       [](const Scope& s, const Output& x) {
         return EmitLists(s, "Pack", {InputList{x.shape().rank() - 1}}).output(0);
       }},
      {"handed on", [](const Scope& s, const Output& x) {
         return Op(s, "Identity", {Op(s, "Range", {0, Op(s, "Rank", {x}), 1})});
       }}};
  for (const TensorShape& shape : {TensorShape(), TensorShape({3}), TensorShape({2, 3})}) {
    for (const auto& [name, axes] : ways) {
      if (shape.rank() == 0 && std::string_view(name) == "the last, packed") continue;
      const Scope s = Scope::NewRootScope();
      const Output x = Source(s, "x", shape), y = Op(s, "Prod", {x, axes(s, x)});
      Tensor v(DType::kDouble, shape);
      for (int64_t i = 0; i < v.num_elements(); ++i) v.data<double>()[i] = 0.5 + 0.25 * static_cast<double>(i);
      BOOST_TEST_CONTEXT(name << ", " << shape.DebugString())
      CheckGradients(s, y, {x}, {{"x", v}}, Gradients(s, {y}, {x}));
    }
  }
  // A scalar has none, whatever they are.
  const Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x"), axes = Source(s, "axes", {0}, DType::kInt32), y = Op(s, "Prod", {x, axes});
  CheckGradients(s, y, {x}, {{"x", Tensor::Scalar(2.0)}, {"axes", Tensor(DType::kInt32, TensorShape({0}))}},
                 Gradients(s, {y}, {x}));
}

BOOST_AUTO_TEST_CASE(gradient_of_a_gradient) {
  Net n;
  const Output y = SumAll(n.s, Op(n.s, "Tanh", {Op(n.s, "MatMul", {n.x, n.w})}));
  const Output first = Gradients(n.s, {y}, {n.x})[0];
  BOOST_REQUIRE_MESSAGE(n.s.ok(), n.s.status().ToString());
  CheckGradients(n.s, first * n.x, {n.x, n.w}, n.feeds);
}

BOOST_AUTO_TEST_CASE(a_stopped_tensor_counts_as_a_constant) {
  Net n;
  GradientOptions options;
  const Output a = Op(n.s, "Tanh", {n.x});
  options.stop_gradients = {a};
  // a counts as a constant c in a * x + a: the slope is c.
  const Output g = Gradients(n.s, {a * n.x + a}, {n.x}, {}, options)[0];
  BOOST_REQUIRE_MESSAGE(n.s.ok(), n.s.status().ToString());
  const std::vector<Tensor> out = RunGraph(*n.s.graph(), n.feeds, {g.name(), a.name()});
  for (int i = 0; i < 6; ++i) BOOST_TEST(out[0].data<double>()[i] == out[1].data<double>()[i]);
}

BOOST_AUTO_TEST_CASE(variables_are_sources) {
  for (const bool resource : {true, false}) {
    Scope s = Scope::NewRootScope();
    VariableOptions options;
    options.use_resource = resource;
    const Variable v(s.WithOpName("v"), Const(s, {2.0, 3.0}), options),
        unused(s.WithOpName("u"), Const(s, {1.0}), options);
    // Two reads of one variable: v * v2 has slope v + v2.
    const Output y = v * v.Read(s) + 1.0;
    const Output first = Output(v.out());  // this read, and not the variable
    const std::vector<Output> g = GradientsOrZeros(s, y, {v.handle(), unused, first, v});
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    const Operation init = GlobalVariablesInitializer(s);
    const std::vector<Tensor> out =
        RunGraph(*s.graph(), {}, {g[0].name(), g[1].name(), g[2].name(), g[3].name()}, {init.name()});
    BOOST_TEST(out[0].DebugString() == "float64 [2] [4 6]");
    BOOST_TEST(out[1].DebugString() == "float64 [1] [0]");
    BOOST_TEST(out[2].DebugString() == "float64 [2] [2 3]");
    BOOST_TEST(out[3].DebugString() == "float64 [2] [4 6]");
  }
}

BOOST_AUTO_TEST_CASE(scopes_name_place_and_order_the_new_nodes) {
  Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x"), first = Source(s, "first");
  const Output y = x * x;
  const Scope inner = s.NewSubScope("train").WithDevice("/device:CPU:0").WithControlDependencies(first);
  const Output g = Gradients(inner, {y}, {x})[0];
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  BOOST_TEST(g.name().starts_with("train/gradients/"));
  BOOST_TEST(g.node()->requested_device() == "/device:CPU:0");
  bool after = false;
  for (const Edge* e : g.node()->in_edges()) after |= e->IsControl() && e->src == first.node();
  BOOST_TEST(after);
}

BOOST_AUTO_TEST_CASE(a_failure_is_the_scopes_error) {
  Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x");
  const std::vector<Output> g = Gradients(s, {Op(s, "Shape", {x})}, {x});
  BOOST_TEST(g.size() == 1u);
  BOOST_TEST(!g[0].valid());
  BOOST_TEST(s.status().ToString().find("must be floating") != std::string::npos);
  BOOST_TEST(s.status().ToString().find("numeric_test.cc:") != std::string::npos);
}

}  // namespace numeric_test
}  // namespace troupe::testing
