// Where ReplicaDevices puts the nodes of a model.
#include "troupe/train/replica_devices.h"

#include <boost/test/unit_test.hpp>

#include "tests/actors/graphs.h"
#include "troupe/ops.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/variable.h"

namespace troupe {
namespace replica_devices_test {

std::string DeviceOf(const Output& o) { return o.node()->requested_device(); }

BOOST_AUTO_TEST_SUITE(replica_devices)

BOOST_AUTO_TEST_CASE(variables_go_round_and_the_rest_to_the_worker) {
  const Scope root = Scope::NewRootScope();
  const Scope on =
      root.WithDeviceFunction(train::ReplicaDevices({.ps_tasks = 2, .worker_device = "/job:worker/task:3"}));
  const Variable a(on.WithOpName("a"), 1.0f), b(on.WithOpName("b"), 2.0f), c(on.WithOpName("c"), 3.0f);
  BOOST_TEST(DeviceOf(a.handle()) == "/job:ps/task:0");
  BOOST_TEST(DeviceOf(b.handle()) == "/job:ps/task:1");
  BOOST_TEST(DeviceOf(c.handle()) == "/job:ps/task:0");
  // What takes a handle stands beside it.
  BOOST_TEST(DeviceOf(b) == "/job:ps/task:1");
  BOOST_TEST(b.initializer().node()->requested_device() == "/job:ps/task:1");
  const Output sum = a + b;
  BOOST_TEST(DeviceOf(ops::Mul(on, a, b)) == "/job:worker/task:3");
  // What a node asks for wins, and what it leaves open is filled in.
  BOOST_TEST(DeviceOf(Variable(on.WithDevice("/job:ps/task:0"), 1.0f).handle()) == "/job:ps/task:0");
  BOOST_TEST(DeviceOf(Variable(on.WithDevice("/job:worker"), 1.0f).handle()) == "/job:worker/task:3");
  BOOST_TEST(DeviceOf(ops::Const(on.WithDevice("/device:CPU:1"), 1.0f)) == "/job:worker/task:3/device:CPU:1");
  BOOST_TEST(DeviceOf(Variable(on.WithDevice("/device:CPU:1"), 1.0f).handle()) == "/job:ps/task:0/device:CPU:1");
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
}

BOOST_AUTO_TEST_CASE(no_parameter_server_places_nothing_and_devices_may_be_kept) {
  const Scope root = Scope::NewRootScope();
  const Scope none = root.WithDeviceFunction(train::ReplicaDevices({}));
  BOOST_TEST(DeviceOf(Variable(none, 1.0f).handle()) == "");
  const Scope kept = root.WithDeviceFunction(train::ReplicaDevices({.ps_tasks = 1, .merge_devices = false}));
  BOOST_TEST(DeviceOf(Variable(kept.WithDevice("/device:CPU:1"), 1.0f).handle()) == "/device:CPU:1");
  BOOST_TEST(DeviceOf(Variable(kept, 1.0f).handle()) == "/job:ps/task:0");
  const Scope some = root.WithDeviceFunction(train::ReplicaDevices({.ps_tasks = 1, .ps_ops = {"Const"}}));
  BOOST_TEST(DeviceOf(ops::Const(some, 1.0f)) == "/job:ps/task:0");
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const Scope wrong = Scope::NewRootScope();
  ops::Const(wrong.WithDeviceFunction(train::ReplicaDevices({.ps_tasks = 1, .worker_device = "/jub:a"})), 1.0f);
  BOOST_TEST((wrong.status().code() == absl::StatusCode::kInvalidArgument));
}

// A model that is trained over two tasks, which one process is here.
BOOST_AUTO_TEST_CASE(a_model_is_trained_over_two_tasks) {
  const Scope root = Scope::NewRootScope();
  const Scope on =
      root.WithDeviceFunction(train::ReplicaDevices({.ps_tasks = 1, .worker_device = "/job:worker/task:0"}));
  const Variable w(on.WithOpName("w"), 0.0f);
  const Output x = ops::Placeholder(on.WithOpName("x"), DType::kFloat);
  const Output loss = ops::Square(on, ops::Sub(on, ops::Mul(on, w, x), 6.0f));
  const Operation step = train::GradientDescent(0.05f).Minimize(on, loss);
  const Operation init = GlobalVariablesInitializer(on);
  SessionOptions options;
  options.runtime_options.tasks = {"/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"};
  const auto session = NewSession(root, options);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  for (int i = 0; i < 50; ++i) TROUPE_REQUIRE_OK(session->Run({{x, Tensor::Scalar(2.0f)}}, {}, {step}, nullptr));
  BOOST_TEST(std::abs(session->Get(w)->data<float>()[0] - 3) < 0.01);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace replica_devices_test
}  // namespace troupe
