// What a Session computes: runs of small graphs through the public calls.
// tests/cast/session_test.cc drives the session actor message by message, and
// tests/race/session_test.cc sessions from many threads.
#include <thread>

#include <boost/test/unit_test.hpp>

#include "troupe/const.h"
#include "troupe/emit.h"
#include "troupe/gradients.h"
#include "troupe/node_builder.h"
#include "troupe/session.h"

namespace troupe {
namespace session_test {

Node* Make(Graph* g, std::string_view name, std::string_view op, std::vector<NodeOut> in, AttrMap attrs = {}) {
  NodeBuilder b(g, name, op, false);
  for (NodeOut o : in) b.Input(o);
  for (const auto& [k, v] : attrs) b.Attr(k, v);
  absl::StatusOr<Node*> n = b.Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return *n;
}

struct OneNode {
  OneNode() {
    Node* x = Make(&graph, "x", "Placeholder", {}, {{"dtype", DType::kFloat}});
    Node* y = Make(&graph, "y", "Placeholder", {}, {{"dtype", DType::kFloat}});
    Make(&graph, "z", "Add", {{x, 0}, {y, 0}});
  }
  Graph graph;
};

BOOST_FIXTURE_TEST_CASE(adds_two_feeds, OneNode) {
  auto session = Session::Create();
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status());
  BOOST_REQUIRE((*session)->Extend(graph).ok());
  std::vector<Tensor> out;
  for (int i = 0; i < 100; ++i) {
    absl::Status s = (*session)->Run({{"x", Tensor::Scalar(1.0f * i)}, {"y", Tensor::Scalar(2.0f)}}, {"z:0"}, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    BOOST_REQUIRE_EQUAL(out.size(), 1u);
    BOOST_TEST(out[0].scalar<float>() == i + 2.0f);
  }
}

// A value in the middle of the graph: the gradient was built for two elements, and would give two
// for one.
BOOST_AUTO_TEST_CASE(a_feed_must_have_the_shape_that_its_node_is_known_to_have) {
  const Scope root = Scope::NewRootScope();
  const Output c = Const(root.WithOpName("c"), {1.f, 2.f});
  const Output any = EmitOp(root.WithOpName("any"), "Placeholder", {}, {{"dtype", DType::kFloat}}).output(0);
  const Output h = EmitOp(root.WithOpName("h"), "Identity", {c}).output(0);
  const Output z = EmitOp(root, "Sum", {EmitOp(root, "Square", {h}).output(0), 0}).output(0);
  const Output slope = Gradients(root, {z}, {h})[0];
  EmitOp(root.WithOpName("rows"), "Reshape", {EmitOp(root.WithOpName("i"), "Identity", {any}).output(0), {-1, 2}});
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  auto session = Session::Create().value();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  const auto run = [&](const char* feed, const Tensor& value, const std::string& fetch) {
    return session->Run({{feed, value}}, {fetch}, {}, &out);
  };
  const auto refused = [](const absl::Status& s, const char* what) {
    BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument), s);
    BOOST_TEST(std::string(s.message()).find(what) != std::string::npos, s);
  };
  const Tensor one = Tensor::Vector<float>({1}), two = Tensor::Vector<float>({3, 4});
  const absl::Status good = run("h", two, slope.name());
  BOOST_REQUIRE_MESSAGE(good.ok(), good);
  BOOST_TEST(out[0].data<float>()[1] == 8);
  refused(run("h", one, slope.name()), "'h' has shape [2], but is fed float32 [1]");
  refused(run("c", Tensor::Scalar(1.f), slope.name()), "'c' has shape [2]");
  refused(run("rows", two, "rows"), "'rows' has shape [?,2]");
  refused(session->Prepare({"h"}, {slope.name()}, {})->Run({one}, &out), "'h' has shape [2]");
  const std::string partial = session->PartialRunSetup({"h"}, {slope.name()}, {}).value();
  refused(session->PartialRun(partial, {{"h", one}}, {slope.name()}, &out), "'h' has shape [2]");
  // Where nothing is known everything goes.
  for (const Tensor& value : {one, two, Tensor::Scalar(1.f)}) {
    const absl::Status s = run("i", value, "i");
    BOOST_TEST(s.ok(), s);
  }
}

BOOST_FIXTURE_TEST_CASE(runs_from_many_threads_at_once, OneNode) {
  auto session = Session::Create();
  BOOST_REQUIRE((*session)->Extend(graph).ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<Tensor> out;
      for (int i = 0; i < 500; ++i) {
        absl::Status s =
            (*session)->Run({{"x", Tensor::Scalar(1.0f * i)}, {"y", Tensor::Scalar(1.0f * t)}}, {"z"}, {}, &out);
        if (!s.ok() || out[0].scalar<float>() != i + t) ++wrong;
      }
    });
  }
  for (auto& t : threads) t.join();
  BOOST_TEST(wrong == 0);
}

BOOST_FIXTURE_TEST_CASE(the_time_of_one_node, OneNode) {
  auto session = Session::Create();
  BOOST_REQUIRE((*session)->Extend(graph).ok());
  auto step = (*session)->Prepare({"x", "y"}, {"z"}, {});
  BOOST_REQUIRE(step.ok());
  std::vector<Tensor> out, in = {Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)};
  for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(step->Run(in, &out).ok());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10000; ++i) (void)step->Run(in, &out);
  const double us = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() * 100;
  BOOST_TEST_MESSAGE("one node: " << us << " us a run");
  BOOST_TEST(us < 1000);
}

}  // namespace session_test
}  // namespace troupe
