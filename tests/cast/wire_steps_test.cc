// Whole steps whose messages pass through bytes, and a session's actor that is asked from another
// actor system, as from another process.
#include <boost/test/unit_test.hpp>
#include <caf/io/all.hpp>
#include <limits>

#include "tests/actors/graphs.h"
#include "tests/cast/same_tensor.h"
#include "troupe/actors.h"
#include "troupe/proto/config.pb.h"
#include "troupe/troupe.h"

namespace troupe {
namespace wire_steps_test {

using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(wire_steps)

// A step on two devices, in bytes and without: equal values, also of loops, of partial runs and of
// a step that fails.
BOOST_AUTO_TEST_CASE(steps_on_several_devices_are_the_same_in_bytes) {
  const Scope root = Scope::NewRootScope();
  const Scope other = root.WithDevice("/device:CPU:1");
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output n = ops::Placeholder(root.WithOpName("n"), DType::kFloat);
  const Output y = ops::Exp(other, ops::Neg(root, x));
  const Output loop = While(
      root, x, [&](const Scope& s, const Output& v) { return ops::Less(s, v, n); },
      [](const Scope& s, const Output& v) { return ops::Mul(s.WithDevice("/device:CPU:1"), v, ops::Const(s, 2.0f)); });
  Variable v(root.WithOpName("v"), ops::Const(root, 1.0f));
  const Output next = v.AssignAdd(root, ops::Mul(other, y, y));
  const Output bad = ops::Reshape(other, ops::Neg(root, x), ops::Const(root, {5}));
  std::vector<std::vector<Tensor>> results;
  std::vector<std::string> errors;
  for (const bool wire : {false, true}) {
    SessionOptions options;
    options.wire_messages = wire;
    options.runtime_options.threads = 2;
    options.runtime_options.cpu_devices = 2;
    const auto session = NewSession(root, options);
    TROUPE_REQUIRE_OK(session->Run({}, {}, {v.initializer()}, nullptr));
    const Feeds feeds{{"x", Tensor::Scalar(1.25f)}, {"n", Tensor::Scalar(1000.0f)}};
    std::vector<Tensor> out;
    for (int i = 0; i < 3; ++i) {
      proto::RunMetadata metadata;
      TROUPE_REQUIRE_OK(session->Run({.collect_stats = true}, feeds, {y, loop, next}, {}, &out, &metadata));
      results.push_back(out);
      BOOST_TEST(metadata.step_stats().dev_stats_size() == 2);
      BOOST_TEST(metadata.step_stats().dev_stats(0).node_stats_size() > 0);
    }
    const auto partial = session->PartialRunSetup({"x", "n"}, {y, loop}, {});
    BOOST_REQUIRE_MESSAGE(partial.ok(), partial.status());
    TROUPE_REQUIRE_OK(session->PartialRun(*partial, {feeds[0]}, {y}, &out));
    results.push_back(out);
    TROUPE_REQUIRE_OK(session->PartialRun(*partial, {feeds[1]}, {loop}, &out));
    results.push_back(out);
    const absl::Status failed = session->Run(feeds, {bad}, {}, &out);
    BOOST_TEST(HasAddress(failed), failed);
    errors.emplace_back(failed.ToString());
  }
  const size_t half = results.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    BOOST_REQUIRE(results[i].size() == results[half + i].size());
    for (size_t k = 0; k < results[i].size(); ++k) BOOST_TEST(Same(results[i][k], results[half + i][k]));
  }
  BOOST_TEST(errors[0] == errors[1]);
}

// A session's actor serves a client in another actor system, as in another process.
BOOST_AUTO_TEST_CASE(a_request_comes_from_another_node) {
  struct Config : caf::actor_system_config {
    Config() {
      load<caf::io::middleman>();
      set("middleman.workers", 0u);
      set("scheduler.max-threads", 2u);
      AddMessageTypes(this);
    }
  };
  Config server_config, client_config;
  caf::actor_system server(server_config), client(client_config);
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  ops::Add(root.WithOpName("y"), x, x);
  const auto runtime = StartRuntimeIn(server, {}).value();
  const auto session = [&] {
    SessionOptions options;
    options.runtime = runtime;
    return NewSession(root, options);
  }();
  const auto port = server.middleman().publish(ActorOf(*session), 0, "127.0.0.1");
  BOOST_REQUIRE(port);
  const auto remote = client.middleman().remote_actor("127.0.0.1", *port);
  BOOST_REQUIRE(remote);
  caf::scoped_actor self(client);
  const float inf = std::numeric_limits<float>::infinity();
  const auto ask = [&](run_request r) {
    run_reply got;
    self->request(*remote, 20s, std::move(r))
        .receive([&](run_reply& reply) { got = std::move(reply); },
                 [&](const caf::error& e) { BOOST_ERROR(client.render(e)); });
    return got;
  };
  run_request request;
  request.feeds = {{"x", Tensor::Vector({1.5f, inf, -0.0f})}};
  request.fetches = {"y"};
  request.options.collect_stats = true;
  const run_reply reply = ask(request);
  TROUPE_REQUIRE_OK(reply.status);
  BOOST_TEST(Same(reply.outputs.at(0), Tensor::Vector({3.0f, inf, -0.0f})));
  BOOST_REQUIRE(reply.metadata != nullptr);
  BOOST_TEST(reply.metadata->step_stats().dev_stats_size() == 1);
  request.fetches = {"z"};
  BOOST_TEST(ask(request).status.code() == absl::StatusCode::kNotFound);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace wire_steps_test
}  // namespace troupe
