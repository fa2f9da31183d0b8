// Which nodes are added.
#include "tests/autodiff/test_ops.h"
#include "troupe/gradient_function.h"
#include "troupe/shape_inference.h"

namespace troupe::testing {
namespace structure_test {

absl::Status BothGradient(GradientContext& g) {
  g.Set(0, g.Op("TestBothGrad", {g.Grad(0), g.Input(1)}));
  g.Set(1, g.Op("TestBothGrad", {g.Grad(0), g.Input(0)}));
  return g.status();
}
TROUPE_OP("TestBoth")
    .Input("a: T")
    .Input("b: T")
    .Output("o: T")
    .Attr("T: type")
    .Shape(shape_fn::MergeAll)
    .Gradient(BothGradient);
TROUPE_OP("TestBothGrad")
    .Input("g: T")
    .Input("v: T")
    .Output("o: T")
    .Attr("T: type")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it is only a test");

absl::Status OneGradient(GradientContext& g) {
  g.Set(0, g.Op("TestOneGrad", {g.Grad(0), g.Output(0)}));
  return g.status();
}
TROUPE_OP("TestOne").Input("a: T").Output("o: T").Attr("T: type").Shape(shape_fn::Unchanged).Gradient(OneGradient);
TROUPE_OP("TestOneGrad")
    .Input("g: T")
    .Input("v: T")
    .Output("o: T")
    .Attr("T: type")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it is only a test");

// Two outputs, of which the gradient asks for both.
absl::Status TwoGradient(GradientContext& g) {
  g.Set(0, g.Op("TestBothGrad", {g.Grad(0), g.Grad(1)}));
  return g.status();
}
TROUPE_OP("TestTwo")
    .Input("a: T")
    .Output("o: T")
    .Output("p: T")
    .Output("n: int32")
    .Attr("T: type")
    .Gradient(TwoGradient);
TROUPE_OP("TestWrongType").Input("a: T").Output("o: T").Attr("T: type").Gradient([](GradientContext& g) {
  g.Set(0, g.Scalar(DType::kDouble, 1));
  return g.status();
});
TROUPE_OP("TestRefuses").Input("a: T").Output("o: T").Attr("T: type").Gradient([](GradientContext& g) {
  g.Set(0, g.Op("TestOneGrad", {g.Grad(0), g.Output(0)}));
  return InvalidArgument("not with this attr");
});

// An array as TensorArrayV3 is one, of another name: what flows goes by output 1.
TROUPE_OP("TestArray")
    .Input("x: float")
    .Output("handle: resource")
    .Output("flow: float")
    .Stateful()
    .Trait(OpTrait::kArrayHandle)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(1));
      return g.status();
    });
TROUPE_OP("TestReadArray")
    .Input("handle: resource")
    .Input("flow: float")
    .Output("o: float")
    .Gradient([](GradientContext& g) {
      g.Set(1, g.Grad(0));
      return g.status();
    });

constexpr char kTwoInputs[] = "x = Placeholder[dtype=float32]\ny = Placeholder[dtype=float32]\n";

BOOST_AUTO_TEST_CASE(a_chain_is_walked_backwards) {
  const Differentiated d =
      MustDifferentiate("x = Placeholder[dtype=float32]\na = TestOne(x)\nb = TestOne(a)\n", {"b"}, {"x"});
  BOOST_TEST(d.added ==
             "g/grad_ys = OnesLike(b)\n"
             "g/b_grad/TestOneGrad = TestOneGrad(g/grad_ys, b)\n"
             "g/a_grad/TestOneGrad = TestOneGrad(g/b_grad/TestOneGrad, a)\n");
  BOOST_TEST(d.Grad(0) == "g/a_grad/TestOneGrad:0");
}

BOOST_AUTO_TEST_CASE(partial_gradients_meet_in_an_addn) {
  const std::string text =
      std::string(kTwoInputs) + "a = TestOne(x)\nb = TestOne(a)\nc = TestOne(a)\nd = TestBoth(b, c)\n";
  const Differentiated d = MustDifferentiate(text, {"d"}, {"x"});
  BOOST_TEST(d.added ==
             "g/grad_ys = OnesLike(d)\n"
             "g/d_grad/TestBothGrad = TestBothGrad(g/grad_ys, c)\n"
             "g/d_grad/TestBothGrad_1 = TestBothGrad(g/grad_ys, b)\n"
             "g/b_grad/TestOneGrad = TestOneGrad(g/d_grad/TestBothGrad, b)\n"
             "g/c_grad/TestOneGrad = TestOneGrad(g/d_grad/TestBothGrad_1, c)\n"
             "g/AddN = AddN(g/b_grad/TestOneGrad, g/c_grad/TestOneGrad)\n"
             "g/a_grad/TestOneGrad = TestOneGrad(g/AddN, a)\n");
}

BOOST_AUTO_TEST_CASE(partial_gradients_meet_in_a_tree) {
  GradientOptions options;
  options.aggregation = Aggregation::kTree;
  const Differentiated d =
      MustDifferentiate("x = Placeholder[dtype=float32]\na = TestOne(x)\nb = TestOne(x)\nc = TestOne(x)\n",
                        {"a", "b", "c"}, {"x"}, options);
  BOOST_TEST(d.added.find("AddN") == std::string::npos);
  BOOST_TEST(d.Grad(0) == "g/Add_1:0");
}

BOOST_AUTO_TEST_CASE(only_paths_between_xs_and_ys_count) {
  // y is no source, so nothing is built for it; e does not lead to a target.
  const std::string text =
      std::string(kTwoInputs) + "a = TestBoth(x, y)\nb = TestOne(y)\nc = TestBoth(a, b)\ne = TestOne(a)\n";
  const Differentiated d = MustDifferentiate(text, {"c"}, {"x"});
  BOOST_TEST(d.added ==
             "g/grad_ys = OnesLike(c)\n"
             "g/c_grad/TestBothGrad = TestBothGrad(g/grad_ys, b)\n"
             "g/a_grad/TestBothGrad = TestBothGrad(g/c_grad/TestBothGrad, y)\n");
}

BOOST_AUTO_TEST_CASE(a_source_between_others_gets_its_gradient_too) {
  const Differentiated d =
      MustDifferentiate("x = Placeholder[dtype=float32]\na = TestOne(x)\nb = TestOne(a)\n", {"b"}, {"x", "a", "b"});
  BOOST_TEST(d.Grad(0) == "g/a_grad/TestOneGrad:0");
  BOOST_TEST(d.Grad(1) == "g/b_grad/TestOneGrad:0");
  BOOST_TEST(d.Grad(2) == "g/grad_ys:0");
}

BOOST_AUTO_TEST_CASE(stop_gradients_cut_the_walk) {
  const std::string text = std::string(kTwoInputs) + "a = TestOne(x)\nb = TestOne(x)\nc = TestBoth(a, b)\n";
  Differentiated d = MustDifferentiate(text, {"c"}, {"x"}, {}, {}, {"b"});
  BOOST_TEST(d.added.find("b_grad") == std::string::npos);
  BOOST_TEST(d.Grad(0) == "g/a_grad/TestOneGrad:0");
  // A stopped tensor that is a source itself has a gradient.
  d = Differentiate(text, {"c"}, {"x", "b"}, {}, {}, {"b"});
  BOOST_REQUIRE_MESSAGE(d.status.ok(), d.status.ToString());
  BOOST_TEST(d.Grad(0) == "g/a_grad/TestOneGrad:0");
  BOOST_TEST(d.Grad(1) == "g/c_grad/TestBothGrad_1:0");
}

BOOST_AUTO_TEST_CASE(stop_gradient_nodes_cut_the_walk) {
  const Differentiated d =
      MustDifferentiate(std::string(kTwoInputs) + "a = StopGradient(x)\nb = TestBoth(a, x)\n", {"b"}, {"x"});
  BOOST_TEST(d.Grad(0) == "g/b_grad/TestBothGrad_1:0");
}

BOOST_AUTO_TEST_CASE(unconnected_sources_get_zeros_or_nothing) {
  const std::string text = std::string(kTwoInputs) + "a = TestOne(x)\n";
  GradientOptions options;
  options.unconnected = Unconnected::kZeros;
  Differentiated d = MustDifferentiate(text, {"a"}, {"y"}, options);
  BOOST_TEST(d.added == "g/grad_ys = OnesLike(a)\ng/zeros = ZerosLike(y)\n");
  options.unconnected = Unconnected::kNone;
  d = Differentiate(text, {"a"}, {"y"}, options);
  BOOST_REQUIRE(d.status.ok());
  BOOST_TEST(d.Grad(0) == "none");
}

BOOST_AUTO_TEST_CASE(no_gradient_flows_through_the_handle_of_an_array) {
  const std::string text =
      std::string(kTwoInputs) + "a = TestArray(x)\nof_flow = TestReadArray(a, a:1)\nof_handle = TestReadArray(a, y)\n";
  BOOST_TEST(MustDifferentiate(text, {"of_flow"}, {"x"}).Grad(0) == "g/grad_ys:0");
  const Differentiated d = Differentiate(text, {"of_handle"}, {"x"});
  BOOST_TEST(d.status.message().find(
                 "only through values that carry no gradient: node 'a' (TestArray) hands none on") != std::string::npos,
             d.status);
}

BOOST_AUTO_TEST_CASE(outputs_without_gradient_count_as_zeros) {
  const Differentiated d =
      MustDifferentiate("x = Placeholder[dtype=float32]\na = TestTwo(x)\nb = TestOne(a:1)\n", {"b"}, {"x"});
  BOOST_TEST(d.added ==
             "g/grad_ys = OnesLike(b)\n"
             "g/b_grad/TestOneGrad = TestOneGrad(g/grad_ys, b)\n"
             "g/a_grad/ZerosLike = ZerosLike(a)\n"
             "g/a_grad/TestBothGrad = TestBothGrad(g/a_grad/ZerosLike, g/b_grad/TestOneGrad)\n");
}

BOOST_AUTO_TEST_CASE(given_grad_ys_are_used) {
  const Differentiated d =
      MustDifferentiate(std::string(kTwoInputs) + "a = TestOne(x)\nb = TestOne(x)\n", {"a", "b"}, {"x"}, {}, {"y", ""});
  BOOST_TEST(d.added ==
             "g/grad_ys = OnesLike(b)\n"
             "g/b_grad/TestOneGrad = TestOneGrad(g/grad_ys, b)\n"
             "g/a_grad/TestOneGrad = TestOneGrad(y, a)\n"
             "g/AddN = AddN(g/b_grad/TestOneGrad, g/a_grad/TestOneGrad)\n");
}

BOOST_AUTO_TEST_CASE(gradients_stand_beside_their_forward_nodes_on_request) {
  GradientOptions options;
  options.colocate_gradients_with_ops = true;
  const Differentiated d = MustDifferentiate(
      "x = Placeholder[dtype=float32]\na = TestOne(x) @/device:GPU:1\nb = TestOne[_class={\"loc:@a\"}](a)\n", {"b"},
      {"x"}, options);
  const auto group = [&](const char* name) {
    return d.graph->Find(name)->Attr<std::vector<std::string>>("_class").value();
  };
  BOOST_TEST(group("g/a_grad/TestOneGrad") == std::vector<std::string>{"loc:@a"});
  BOOST_TEST(group("g/b_grad/TestOneGrad") == std::vector<std::string>{"loc:@a"});
  BOOST_TEST(d.graph->Find("g/a_grad/TestOneGrad")->requested_device() == "/device:GPU:1");
}

BOOST_AUTO_TEST_CASE(a_second_call_gets_names_of_its_own) {
  Differentiated d = Differentiate("x = Placeholder[dtype=float32]\na = TestOne(x)\n", {"a"}, {"x"});
  GradientOptions options;
  options.name = "g";
  std::vector<NodeOut> grads;
  BOOST_REQUIRE(
      AddGradients(d.graph.get(), Tensors(*d.graph, {"a"}), Tensors(*d.graph, {"x"}), {}, options, &grads).ok());
  BOOST_TEST(grads[0].ToString() == "g_1/a_grad/TestOneGrad:0");
}

BOOST_AUTO_TEST_CASE(options_take_nodes_of_the_graph_only) {
  Differentiated d = Differentiate("x = Placeholder[dtype=float32]\na = TestOne(x)\n", {"a"}, {"x"});
  Differentiated other = Differentiate("x = Placeholder[dtype=float32]\na = TestOne(x)\n", {"a"}, {"x"});
  const int nodes = d.graph->num_nodes(), edges = other.graph->num_edges();
  const auto error = [&](const GradientOptions& options) {
    std::vector<NodeOut> grads;
    const absl::Status s =
        AddGradients(d.graph.get(), Tensors(*d.graph, {"a"}), Tensors(*d.graph, {"x"}), {}, options, &grads);
    BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument));
    return std::string(s.message());
  };
  GradientOptions options;
  options.control_dependencies = {other.graph->Find("x")};
  BOOST_TEST(error(options).find("the control dependency 'x' is of another graph") != std::string::npos);
  options.control_dependencies = {nullptr};
  BOOST_TEST(error(options).find("is no node") != std::string::npos);
  options = {};
  options.stop_gradients = {{other.graph->Find("x"), 0}};
  BOOST_TEST(error(options).find("'x:0' is of another graph") != std::string::npos);
  BOOST_TEST(d.graph->num_nodes() == nodes);
  BOOST_TEST(other.graph->num_edges() == edges);
}

// What is wrong, and that the graph is left as it was.
BOOST_AUTO_TEST_CASE(what_has_no_gradient_is_refused_and_leaves_the_graph_as_it_was) {
  struct Case {
    const char *text, *y, *x, *grad_y, *message;
  };
  const std::vector<Case> cases = {
      {"a = TestOneGrad(x, y)", "a", "x", nullptr, "op 'TestOneGrad' (node 'a') has no gradient: it is only a test"},
      {"a = TestWrongType(x)", "a", "x", nullptr, "its gradient for 'x:0' is float64, but the tensor is float32"},
      {"a = TestOne(x)\nb = TestRefuses(a)", "b", "x", nullptr,
       "node 'b' (TestRefuses): in its gradient: not with this attr"},
      {"a = Shape(x)", "a", "x", nullptr,
       "the dtype of y 'a:0' must be floating (e.g. float32) to take its gradient, got int32"},
      {"a = Shape(x)", "x", "a", nullptr,
       "the dtype of x 'a:0' must be floating (e.g. float32) to take a gradient with respect to it, "
       "got int32"},
      {"a = TestOne(x)\nb = Placeholder[dtype=float64]", "a", "x", "b",
       "the grad_ys for 'a:0' is float64, but the tensor is float32"},
      {"a = Placeholder[dtype=complex64]\nb = TestOne(a)", "b", "a", nullptr,
       "the gradient of the complex tensor 'b:0' (complex64) needs its grad_ys"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> dy;
    if (c.grad_y != nullptr) dy.push_back(c.grad_y);
    const Differentiated d = Differentiate(std::string(kTwoInputs) + c.text + "\n", {c.y}, {c.x}, {}, dy);
    BOOST_TEST(!d.status.ok());
    BOOST_TEST_INFO(d.status.ToString());
    BOOST_TEST(d.status.ToString().find(c.message) != std::string::npos);
    BOOST_TEST(d.added == "");
  }
}

}  // namespace structure_test
}  // namespace troupe::testing
