// What the passes cost grows with nodes and edges, not with a node's degree times anything.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>

#include "graph/passes/cse.h"
#include "graph/passes/fold.h"
#include "graph/passes/fuse.h"
#include "graph/passes/partition.h"
#include "graph/passes/place.h"
#include "graph/passes/prune.h"
#include "kernels/pass_support.h"
#include "tests/passes/graphs.h"
#include "tests/passes/session_graphs.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace linear_test {

Node* Constant(Graph* g, const std::string& name) {
  return *NodeBuilder(g, name, "Const").Attr("dtype", DType::kFloat).Attr("value", Tensor::Scalar<float>(1)).Build();
}
Node* Placeholder(Graph* g) { return *NodeBuilder(g, "x", "Placeholder").Attr("dtype", DType::kFloat).Build(); }
Node* Unary(Graph* g, const std::string& name, const std::string& op, Node* x) {
  return *NodeBuilder(g, name, op).Input(x).Build();
}

// Each builds a graph of about n nodes or edges, to be run with x fed and target "end".
struct Shape {
  const char* what;
  std::function<void(Graph*, int)> build;
};

const Shape kShapes[] = {
    {"one node reads a constant n times",
     [](Graph* g, int n) {
       Node* c = Constant(g, "c");
       Node* sum = *g->AddNode("end", "AddN", {{"T", DType::kFloat}, {"N", n}});
       for (int i = 0; i < n; ++i) BOOST_REQUIRE(g->AddEdge(c, 0, sum, i).ok());
     }},
    {"one node reads n constants",
     [](Graph* g, int n) {
       Node* sum = *g->AddNode("end", "AddN", {{"T", DType::kFloat}, {"N", n}});
       for (int i = 0; i < n; ++i) BOOST_REQUIRE(g->AddEdge(Constant(g, StrCat("c", i)), 0, sum, i).ok());
     }},
    {"a placeholder with n equal consumers, a node that waits for all",
     [](Graph* g, int n) {
       Node* x = Placeholder(g);
       Node* end = *g->AddNode("end", "NoOp", {});
       for (int i = 0; i < n; ++i) g->AddControlEdgeUnchecked(Unary(g, StrCat("n", i), "Neg", x), end);
     }},
    {"a placeholder with n consumers, a node that waits for all",
     [](Graph* g, int n) {
       Node* x = Placeholder(g);
       Node* end = *g->AddNode("end", "NoOp", {});
       for (int i = 0; i < n; ++i) {
         Node* neg = *NodeBuilder(g, StrCat("n", i), "Neg").Input(x).Attr("_number", i).Build();
         g->AddControlEdgeUnchecked(neg, end);
       }
     }},
    {"n equal nodes that one reads and another waits for",
     [](Graph* g, int n) {
       Node* x = Placeholder(g);
       Node* sum = *g->AddNode("sum", "AddN", {{"T", DType::kFloat}, {"N", n}});
       Node* end = *g->AddNode("end", "NoOp", {});
       g->AddControlEdge(sum, end);
       for (int i = 0; i < n; ++i) {
         Node* neg = Unary(g, StrCat("n", i), "Neg", x);
         BOOST_REQUIRE(g->AddEdge(neg, 0, sum, i).ok());
         g->AddControlEdgeUnchecked(neg, end);
       }
     }},
    {"a constant that waits for n nodes, and n that wait for it",
     [](Graph* g, int n) {
       Node* x = Placeholder(g);
       Node* c = Constant(g, "c");
       Node* d = Unary(g, "d", "Neg", c);
       Node* end = *g->AddNode("end", "NoOp", {});
       for (int i = 0; i < n; ++i) {
         g->AddControlEdgeUnchecked(Unary(g, StrCat("n", i), i % 2 == 0 ? "Neg" : "Square", x), c);
         Node* after = *g->AddNode(StrCat("a", i), "NoOp", {});
         g->AddControlEdgeUnchecked(d, after);
         g->AddControlEdgeUnchecked(after, end);
       }
     }},
    {"n constants folded away from one",
     [](Graph* g, int n) {
       Node* c = Constant(g, "c");
       Node* x = Placeholder(g);
       Node* end = *g->AddNode("end", "NoOp", {});
       for (int i = 0; i < n; ++i) {
         Node* m = *g->AddNode(StrCat("m", i), "Mul", {{"T", DType::kFloat}});
         BOOST_REQUIRE(g->AddEdge(Unary(g, StrCat("n", i), "Neg", c), 0, m, 0).ok());
         BOOST_REQUIRE(g->AddEdge(x, 0, m, 1).ok());
         g->AddControlEdgeUnchecked(m, end);
       }
     }},
    {"a node of n outputs, all of them read",
     [](Graph* g, int n) {
       Node* x = Placeholder(g);
       Node* parts = *g->AddNode("parts", "Unpack", {{"T", DType::kFloat}, {"num", n}});
       BOOST_REQUIRE(g->AddEdge(x, 0, parts, 0).ok());
       Node* sum = *g->AddNode("end", "AddN", {{"T", DType::kFloat}, {"N", n}});
       for (int i = 0; i < n; ++i) BOOST_REQUIRE(g->AddEdge(parts, i, sum, i).ok());
     }},
    {"a chain of n nodes",
     [](Graph* g, int n) {
       Node* last = Placeholder(g);
       for (int i = 0; i < n; ++i) last = Unary(g, StrCat("n", i), i % 3 == 0 ? "Tanh" : "Softplus", last);
       Unary(g, "end", "Neg", last);
     }},
    {"n branches, one in the other",
     [](Graph* g, int n) {
       Node* last = Placeholder(g);
       Node* p = *NodeBuilder(g, "p", "Less").Input(last).Input(Constant(g, "c")).Build();
       for (int i = 0; i < n; ++i) {
         Node* fork = *g->AddNode(StrCat("s", i), "Switch", {{"T", DType::kFloat}});
         BOOST_REQUIRE(g->AddEdge(last, i == 0 ? 0 : 1, fork, 0).ok());
         BOOST_REQUIRE(g->AddEdge(p, 0, fork, 1).ok());
         last = fork;
       }
       Node* end = *g->AddNode("end", "Identity", {{"T", DType::kFloat}});
       BOOST_REQUIRE(g->AddEdge(last, 1, end, 0).ok());
     }},
};

const std::vector<std::string> kCpus = {"/job:w/replica:0/task:0/device:CPU:0", "/job:w/replica:0/task:0/device:CPU:1"};

// Seconds of processor time of this thread.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// All passes over a graph that only they see, with every other node on the second device. By pass,
// in seconds.
std::vector<std::pair<std::string, double>> Passes(const Shape& shape, int n) {
  Graph graph;
  shape.build(&graph, n);
  std::vector<std::pair<std::string, double>> taken;
  double start = Now();
  const auto done = [&](const char* what, const absl::Status& s) {
    BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
    taken.emplace_back(what, Now() - start);
    start = Now();
  };
  const Names feeds = graph.Find("x") != nullptr ? Names{"x"} : Names{};
  auto pruned = PruneForExecution(graph, feeds, {}, Names{"end"});
  done("prune", pruned.status());
  Graph* g = pruned->graph.get();
  KernelEvaluator evaluator;
  done("fold", FoldConstants(g, &evaluator).status());
  done("merge", EliminateCommonSubexpressions(g).status());
  const DeviceSet devices = *DeviceSet::Make({{kCpus[0], 1, 0}, {kCpus[1], 2, 0}});
  for (const bool cost : {false, true}) {
    for (Node* m : g->op_nodes()) m->set_assigned_device("");
    PlaceOptions place;
    place.use_cost_model = cost;
    done(cost ? "place by cost" : "place", PlaceGraph(g, devices, RegistryKernelLookup(), place));
  }
  for (Node* m : g->op_nodes()) m->set_assigned_device(kCpus[static_cast<size_t>(m->id()) % 2]);
  CostModel costs;
  done("shapes", costs.InferShapes(*g));
  PartitionOptions cut;
  cut.schedule_recvs = &costs;
  auto parts = PartitionGraph(std::move(pruned->graph), devices, cut);
  done("cut", parts.status());
  for (GraphPart& p : *parts) done("fuse", FuseNodes(p.graph.get(), RegistryKernelLookup()).status());
  return taken;
}

// The least of each pass: what else the machine does takes its caches away now and then.
void KeepLeast(const std::vector<std::pair<std::string, double>>& taken,
               std::vector<std::pair<std::string, double>>* least) {
  if (least->empty()) *least = taken;
  for (size_t i = 0; i < taken.size(); ++i) (*least)[i].second = std::min((*least)[i].second, taken[i].second);
}

BOOST_AUTO_TEST_SUITE(linear)

// A quadratic pass takes 64 times as long for 8 times the size. 24 leaves room for caches and for
// others on the machine; times below 60 ms say nothing.
BOOST_AUTO_TEST_CASE(passes_are_linear_in_fan_in_and_fan_out) {
  for (const Shape& shape : kShapes) {
    std::vector<std::pair<std::string, double>> small, large;
    const auto ratio = [&](size_t i) { return large[i].second / std::max(small[i].second, 60e-3 / 24); };
    bool linear = false;
    for (int readings = 0; readings < 3 && !linear; ++readings) {
      KeepLeast(Passes(shape, 4000), &small);
      KeepLeast(Passes(shape, 32000), &large);
      BOOST_REQUIRE(small.size() == large.size());
      linear = true;
      for (size_t i = 0; i < large.size(); ++i) linear &= ratio(i) < 24;
    }
    std::string report;
    for (size_t i = 0; i < large.size(); ++i) {
      StrAppend(&report, large[i].first, " ", static_cast<int>(large[i].second * 1e3), " ms, ");
      BOOST_TEST(ratio(i) < 24, shape.what << ": " << large[i].first << " took " << small[i].second << " s, then "
                                           << large[i].second << " s");
    }
    BOOST_TEST_MESSAGE(shape.what << ": " << report);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace linear_test
}  // namespace troupe
