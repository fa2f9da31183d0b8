// The programs at the top of headers, as they stand there (quotes_test.cc compares them), compiled
// and run.
#include <boost/test/unit_test.hpp>
#include <iostream>

#include "troupe/evaluate.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/passes.h"
#include "troupe/registration.h"
#include "troupe/shape_inference.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;

// The kernel that is there already stays in force.
// clang-format off
// [include/troupe/kernel.h]
class ReluKernel {
 public:
  explicit ReluKernel(KernelInit& init);                  // init.Fail(status) refuses the node
  absl::Status Compute(KernelContext& ctx);               // validate, allocate, compute, in this order
};
TROUPE_KERNEL("Relu").Device("CPU").Type<float>("T").Class<ReluKernel>();
// [/include/troupe/kernel.h]
// clang-format on
ReluKernel::ReluKernel(KernelInit& init) { init.Fail(Internal("a test's kernel")); }
absl::Status ReluKernel::Compute(KernelContext&) { return Internal("a test's kernel"); }

// Defines Relu a second time when it is called.
void DefineRelu() {
  // clang-format off
  // [include/troupe/op_def.h]
  TROUPE_OP("Relu")
      .Input("features: T").Output("activations: T")
      .Attr("T: {float, double, int32} = DT_FLOAT")
      .Shape(shape_fn::Unchanged)
      .Gradient([](GradientContext& g) { g.Set(0, g.Op("ReluGrad", {g.Grad(0), g.Output(0)})); return g.status(); })
      .Doc("max(features, 0), element by element.");
  // [/include/troupe/op_def.h]
  // clang-format on
}

BOOST_AUTO_TEST_CASE(the_programs_of_op_def_and_kernel) {
  DefineRelu();
  BOOST_TEST(!RegistrationErrorsOf("Relu").empty());
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output y = ops::Relu(scope, Const(scope, {-1.0f, 2.0f}));
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  const absl::Status status = session->Run({}, {y.name()}, {}, &out);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  BOOST_TEST(out[0].DebugString() == "float32 [2] [0 2]");
}

BOOST_AUTO_TEST_CASE(the_program_of_scope) {
  const Tensor x = Tensor::Of<float>({1, 2}, {1, 2}), w = Tensor::Of<float>({3, 4}, {2, 1}), b = Tensor::Scalar(1.0f);
  // clang-format off
  // [include/troupe/scope.h]
  troupe::Scope root = troupe::Scope::NewRootScope();
  troupe::Scope fc1 = root.NewSubScope("fc1").WithDevice("/job:worker");
  auto y = troupe::ops::MatMul(fc1, x, w);            // node "fc1/MatMul"
  auto z = troupe::ops::Add(fc1.WithOpName("z"), y, b);  // node "fc1/z"
  if (!root.ok()) std::cerr << root.status();         // names the line of the first bad call
  // [/include/troupe/scope.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(y.name() == "fc1/MatMul:0");
  BOOST_TEST(z.name() == "fc1/z:0");
}

BOOST_AUTO_TEST_CASE(the_program_of_session) {
  const Scope root = Scope::NewRootScope();
  // clang-format off
  // [include/troupe/session.h]
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat), y = x * 3.0f;
  auto session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({{x, Tensor::Scalar(2.0f)}}, {y}, {}, &out);
  // [/include/troupe/session.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_TEST(out[0].scalar<float>() == 6);
}

BOOST_AUTO_TEST_CASE(the_program_of_names) {
  const Scope root = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const Variable w(root.WithOpName("w"), 1.0f, {.use_resource = false});
  const Output loss = ops::Square(root, w * x);
  const Operation train = train::GradientDescent(0.25f).Minimize(root, loss);
  const Operation init = GlobalVariablesInitializer(root);
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  BOOST_REQUIRE(session->Run({}, {}, {init}, nullptr).ok());
  std::vector<Tensor> out;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-result"  // the sample shows arguments
  // clang-format off
  // [include/troupe/names.h]
  session->Run({{x, Tensor::Scalar(2.0f)}}, {loss, "w:0"}, {train}, &out);
  // [/include/troupe/names.h]
  // clang-format on
#pragma GCC diagnostic pop
  BOOST_REQUIRE(out.size() == 2);
  BOOST_TEST(out[0].scalar<float>() == 4);
}

BOOST_AUTO_TEST_CASE(the_program_of_control_flow) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, 3.0f), pred = Const(scope, true), n = Const(scope, 4);
  // clang-format off
  // [include/troupe/control_flow.h]
  Output y = Cond(scope, pred, [&](const Scope& s) { return ops::Square(s, x); }, [&](const Scope& s) { return ops::Neg(s, x); });
  OutputList r = While(scope, {0, 1.0f},
                       [&](const Scope& s, const OutputList& v) { return v[0] < n; },
                       [&](const Scope& s, const OutputList& v) -> OutputList { return {v[0] + 1, v[1] * x}; });
  // [/include/troupe/control_flow.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {y.name(), r[1].name()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() == 9);
  BOOST_TEST(out[1].scalar<float>() == 81);
}

absl::Status AddTheGradients(Graph& graph, NodeOut loss, NodeOut w, NodeOut b, std::vector<NodeOut>* result) {
  // clang-format off
  // [include/troupe/gradients.h]
  std::vector<NodeOut> g;
  TROUPE_RETURN_IF_ERROR(AddGradients(&graph, {loss}, {w, b}, {}, {}, &g));
  // [/include/troupe/gradients.h]
  // clang-format on
  *result = g;
  return absl::OkStatus();
}
BOOST_AUTO_TEST_CASE(the_program_of_gradients) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output w = Const(scope, 3.0f), b = Const(scope, 4.0f);
  std::vector<NodeOut> g;
  const absl::Status s = AddTheGradients(*scope.graph(), w * b, w, b, &g);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {g[0].ToString(), g[1].ToString()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() == 4);
  BOOST_TEST(out[1].scalar<float>() == 3);
}

BOOST_AUTO_TEST_CASE(the_program_of_initializers) {
  const Scope scope = Scope::NewRootScope();
  // clang-format off
  // [include/troupe/train/initializers.h]
  Variable w(scope.WithOpName("w"), init::GlorotUniform()(scope, {784, 100}, DType::kFloat));
  // [/include/troupe/train/initializers.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  BOOST_TEST(w.variable_shape().DebugString() == "[784,100]");
}

BOOST_AUTO_TEST_CASE(the_program_of_layers) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat, {.shape = {-1, 784}});
  // clang-format off
  // [include/troupe/train/layers.h]
  Output h = layers::Dense(root.WithOpName("fc1"), x, 100, {.activation = "Relu"});   // variables fc1/kernel and fc1/bias
  // [/include/troupe/train/layers.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(h.shape().DebugString() == "[?,100]");
  const std::vector<Variable> variables = VariablesIn(root, kTrainableVariables);
  BOOST_REQUIRE(variables.size() == 2);
  BOOST_TEST(variables[0].variable_name() == "fc1/kernel");
  BOOST_TEST(variables[1].variable_name() == "fc1/bias");
}

BOOST_AUTO_TEST_CASE(the_program_of_variable) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, {{1.0f, 2.0f}});
  // clang-format off
  // [include/troupe/variable.h]
  Variable w(scope.WithOpName("w"), Const(scope, {{0.5f}, {0.25f}}));  // nodes w, w/Assign, w/Read
  Output y = ops::MatMul(scope, x, w);               // a Variable is an Output: its value, read once in a step
  Output slope = Gradients(scope, {y}, {w})[0];      // with respect to the variable, however it is read
  Output after = w.AssignSub(scope, 0.1f * slope);   // the value afterwards
  Operation init = GlobalVariablesInitializer(scope);
  absl::Status status = session->Extend(*scope.graph());
  if (status.ok()) status = session->Run({}, {}, {init.name()}, nullptr);  // before anything else
  // [/include/troupe/variable.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  std::vector<Tensor> out;
  status = session->Run({}, {y.name(), slope.name()}, {}, &out);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  BOOST_TEST(out[0].DebugString() == "float32 [1,1] [1]");
  BOOST_TEST(out[1].DebugString() == "float32 [2,1] [1 2]");
  BOOST_REQUIRE(session->Run({}, {after.name()}, {}, &out).ok());
  BOOST_TEST(out[0].shape().DebugString() == "[2,1]");
}

BOOST_AUTO_TEST_CASE(the_program_of_optimizer) {
  const Scope root = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Variable w(root.WithOpName("w"), 1.0f);
  const Output loss = ops::Square(root, w * x);
  const Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
  // clang-format off
  // [include/troupe/train/optimizer.h]
  train::Adam adam(0.001);
  Operation step = adam.Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root);  // after Minimize: slots are variables, too
  absl::Status status = session->Extend(*root.graph());
  if (status.ok()) status = session->Run({}, {}, {init.name()}, nullptr);
  for (int i = 0; i < 100 && status.ok(); ++i) status = session->Run(feeds, {}, {step.name()}, nullptr);
  // [/include/troupe/train/optimizer.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run(feeds, {w.name()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() < 1.0f);
}

BOOST_AUTO_TEST_CASE(the_program_of_functional) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, {1.0f, 2.0f, 3.0f});
  // clang-format off
  // [include/troupe/functional.h]
  Output squares = Map(scope, x, [](const Scope&, const Output& row) { return row * row; });
  Output sum = Fold(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
  Output sums = Scan(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
  // [/include/troupe/functional.h]
  // clang-format on
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {squares.name(), sum.name(), sums.name()}, {}, &out).ok());
  BOOST_TEST(out[0].DebugString() == "float32 [3] [1 4 9]");
  BOOST_TEST(out[1].DebugString() == "float32 [] [6]");
  BOOST_TEST(out[2].DebugString() == "float32 [3] [1 3 6]");
}

BOOST_AUTO_TEST_CASE(the_program_of_evaluate) {
  // clang-format off
  // [include/troupe/evaluate.h]
  auto y = EvaluateOp("Add", {Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)});   // (*y)[0] is 3
  // [/include/troupe/evaluate.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(y.ok(), y.status());
  BOOST_TEST((*y)[0].scalar<float>() == 3.0f);
}

BOOST_AUTO_TEST_CASE(the_program_of_passes) {
  const Scope scope = Scope::NewRootScope();
  const Output x = ops::Placeholder(scope.WithOpName("x"), DType::kFloat);
  const Output two = ops::Add(scope.WithOpName("two"), 1.0f, 1.0f),
               also = ops::Add(scope.WithOpName("also"), 1.0f, 1.0f);
  ops::AddN(scope.WithOpName("loss"), {x, two, also, ops::Square(scope.WithOpName("square"), x)});
  ops::Neg(scope.WithOpName("aside"), x);
  BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status());
  const Graph& graph = *scope.graph();
  // clang-format off
  // [include/troupe/passes.h]
  auto pruned = PruneGraph(graph, {"x"}, {"loss"}, {});   // what a step that fetches "loss" runs
  absl::Status s = FoldGraph(pruned->get());               // constants are computed once
  // [/include/troupe/passes.h]
  // clang-format on
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  const auto ops_of = [](const Graph& g, std::string_view op) {
    int n = 0;
    for (const Node* node : g.op_nodes()) n += node->op().name == op;
    return n;
  };
  BOOST_TEST(ops_of(graph, "Add") == 2);
  BOOST_TEST(ops_of(graph, "Neg") == 1);
  BOOST_TEST(ops_of(**pruned, "Add") == 0);
  BOOST_TEST(ops_of(**pruned, "Neg") == 0);
  BOOST_TEST(ops_of(**pruned, "_Arg") == 1);
  const int constants = ops_of(**pruned, "Const");
  BOOST_REQUIRE(MergeCommonSubexpressions(pruned->get()).ok());
  BOOST_TEST(ops_of(**pruned, "Const") == constants - 1);
  BOOST_TEST(PruneGraph(graph, {}, {"loss"}, {}).status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
