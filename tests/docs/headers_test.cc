// The programs at the top of headers, as they stand there (quotes_test.cc compares them), compiled
// and run.
#include <boost/test/unit_test.hpp>

#include "troupe/troupe.h"

namespace {

using namespace troupe;

BOOST_AUTO_TEST_CASE(TheProgramOfVariable) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, {{1.0f, 2.0f}});
  // [include/troupe/variable.h]
  Variable w(scope.WithOpName("w"), Const(scope, {{0.5f}, {0.25f}}));  // nodes w, w/Assign, w/Read
  Output y = ops::MatMul(scope, x, w);              // a Variable is an Output: its value, read once in a step
  Output slope = Gradients(scope, {y}, {w})[0];     // with respect to the variable, however it is read
  Output after = w.AssignSub(scope, 0.1f * slope);  // the value afterwards
  Operation init = GlobalVariablesInitializer(scope);
  absl::Status status = session->Extend(*scope.graph());
  if (status.ok()) status = session->Run({}, {}, {init.name()}, nullptr);  // before anything else
  // [/include/troupe/variable.h]
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  std::vector<Tensor> out;
  status = session->Run({}, {y.name(), slope.name()}, {}, &out);
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  BOOST_TEST(out[0].DebugString() == "float32 [1,1] [1]");
  BOOST_TEST(out[1].DebugString() == "float32 [2,1] [1 2]");
  BOOST_REQUIRE(session->Run({}, {after.name()}, {}, &out).ok());
  BOOST_TEST(out[0].shape().DebugString() == "[2,1]");
}

BOOST_AUTO_TEST_CASE(TheProgramOfOptimizer) {
  const Scope root = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Variable w(root.WithOpName("w"), 1.0f);
  const Output loss = ops::Square(root, w * x);
  const Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
  // [include/troupe/train/optimizer.h]
  train::Adam adam(0.001);
  Operation step = adam.Minimize(root, loss);
  Operation init = GlobalVariablesInitializer(root);  // after Minimize: slots are variables, too
  absl::Status status = session->Extend(*root.graph());
  if (status.ok()) status = session->Run({}, {}, {init.name()}, nullptr);
  for (int i = 0; i < 100 && status.ok(); ++i) status = session->Run(feeds, {}, {step.name()}, nullptr);
  // [/include/troupe/train/optimizer.h]
  BOOST_REQUIRE_MESSAGE(status.ok(), status.ToString());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run(feeds, {w.name()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() < 1.0f);
}

BOOST_AUTO_TEST_CASE(TheProgramOfFunctional) {
  const Scope scope = Scope::NewRootScope();
  auto session = *Session::Create();
  const Output x = Const(scope, {1.0f, 2.0f, 3.0f});
  // [include/troupe/functional.h]
  Output squares = Map(scope, x, [](const Scope&, const Output& row) { return row * row; });
  Output sum = Fold(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
  Output sums = Scan(scope, x, 0.0f, [](const Scope&, const Output& sum, const Output& row) { return sum + row; });
  // [/include/troupe/functional.h]
  BOOST_REQUIRE(session->Extend(*scope.graph()).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({}, {squares.name(), sum.name(), sums.name()}, {}, &out).ok());
  BOOST_TEST(out[0].DebugString() == "float32 [3] [1 4 9]");
  BOOST_TEST(out[1].DebugString() == "float32 [] [6]");
  BOOST_TEST(out[2].DebugString() == "float32 [3] [1 3 6]");
}

}  // namespace
