// Runs of small graphs through a Session.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "troupe/session.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace {

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

BOOST_FIXTURE_TEST_CASE(AddsTwoFeeds, OneNode) {
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

BOOST_FIXTURE_TEST_CASE(RunsFromManyThreadsAtOnce, OneNode) {
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

BOOST_FIXTURE_TEST_CASE(TheTimeOfOneNode, OneNode) {
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

}  // namespace
}  // namespace troupe
