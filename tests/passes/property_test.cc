// Random graphs with branches, loops, side effects and control edges: no pass changes what a step
// gives, and passes are fast enough for large graphs.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <random>

#include "graph/passes/cse.h"
#include "graph/passes/fold.h"
#include "graph/passes/partition.h"
#include "graph/passes/place.h"
#include "graph/passes/prune.h"
#include "tests/passes/graphs.h"
#include "tests/passes/interpreter.h"
#include "troupe/node_builder.h"
#include "troupe/text.h"

namespace troupe {
namespace property_test {

class TestOpEvaluator : public ConstantEvaluator {
 public:
  absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> in) override {
    return ComputeTestOp(node, {in.begin(), in.end()});
  }
  bool CanEvaluate(const Node& node) override { return node.op().name.substr(0, 4) == "Test"; }
};

class EveryKernel : public KernelLookup {
 public:
  bool HasKernel(const Node&, const std::string&) const override { return true; }
};

class RandomGraph {
 public:
  explicit RandomGraph(int seed) : rng_(seed) {
    Line("x = TestFeed[dtype=int32]");
    Line("y = TestFeed[dtype=int32]");
    values_ = {"x", "y"};
    const int statements = 6 + Random(20);
    for (int i = 0; i < statements; ++i) Statement();
  }
  const std::string& text() const { return text_; }
  std::vector<std::string> Fetches() {
    std::vector<std::string> names;
    for (int i = 0; i < 3; ++i) names.push_back(Pick(values_));
    return names;
  }
  const std::vector<std::string>& prints() const { return prints_; }
  int Random(int n) { return static_cast<int>(rng_() % static_cast<unsigned>(n)); }

 private:
  void Line(const std::string& line) { StrAppend(&text_, line, "\n"); }
  std::string New() { return StrCat("n", ++count_); }
  std::string Pick(const std::vector<std::string>& from) { return from[Random(static_cast<int>(from.size()))]; }

  // A node that reads some of `from`; its name.
  std::string Op(const std::vector<std::string>& from, const std::string& control = "") {
    const std::string n = New();
    const std::string c = control.empty() ? "" : ", ^" + control;
    switch (Random(6)) {
      case 0:
        Line(StrCat(n, " = TestAdd(", Pick(from), ", ", Pick(from), c, ")"));
        break;
      case 1:
        Line(StrCat(n, " = TestSub(", Pick(from), ", ", Pick(from), c, ")"));
        break;
      case 2:
        Line(StrCat(n, " = TestNeg(", Pick(from), c, ")"));
        break;
      case 3:
        Line(StrCat(n, " = TestAddN(", Pick(from), ", ", Pick(from), ", ", Pick(from), c, ")"));
        break;
      case 4:
        Line(StrCat(n, " = TestSplit(", Pick(from), c, ")"));
        return Random(2) ? n : n + ":1";
      default:
        Line(StrCat(n, " = TestPrint(", Pick(from), c, ")"));
        if (&from == &values_) prints_.push_back(n);
    }
    return n;
  }

  static std::string NodeOf(const std::string& value) { return value.substr(0, value.find(':')); }

  void Statement() {
    const int kind = Random(10);
    if (kind < 3) {
      const std::string n = New();
      Line(StrCat(n, " = Const[value=int32{", Random(4), "}]",
                  Random(3) ? "" : StrCat("(^", NodeOf(Pick(values_)), ")")));
      values_.push_back(n);
    } else if (kind < 8) {
      const std::string control = Random(4) ? "" : NodeOf(Pick(values_));
      values_.push_back(Op(values_, control));
    } else if (kind == 8) {
      Branch();
    } else {
      Loop();
    }
  }

  void Branch() {
    const std::string p = New(), a = New(), b = New(), k = New(), join = New();
    Line(StrCat(p, " = TestLess(", Pick(values_), ", ", Pick(values_), ")"));
    Line(StrCat(a, " = Switch(", Pick(values_), ", ", p, ")"));
    Line(StrCat(b, " = Switch(", Pick(values_), ", ", p, ")"));
    std::vector<std::string> no = {a, b}, yes = {a + ":1", b + ":1"};
    Line(StrCat(k, " = Identity(", a, ":1)"));
    const std::string one = New();
    Line(StrCat(one, " = Const[value=int32{1}](^", k, ")"));
    yes.push_back(one);
    for (int i = Random(3); i >= 0; --i) no.push_back(Op(no));
    for (int i = Random(4); i >= 0; --i) yes.push_back(Op(yes));
    Line(StrCat(join, " = Merge(", no.back(), ", ", yes.back(), ")"));
    values_.push_back(join);
  }

  // i from 0 to a few; v goes through random nodes each time.
  void Loop() {
    const std::string f = New();
    const std::string frame = StrCat("[frame_name=\"", f, "\"]"),
                      constant = StrCat("[frame_name=\"", f, "\", is_constant=true]");
    const auto name = [&](const char* what) { return StrCat(f, what); };
    Line(StrCat(name("zero"), " = Const[value=int32{0}]"));
    Line(StrCat(name("limit"), " = Const[value=int32{", Random(4), "}]"));
    Line(StrCat(name("ei"), " = Enter", frame, "(", name("zero"), ")"));
    Line(StrCat(name("ev"), " = Enter", frame, "(", Pick(values_), ")"));
    Line(StrCat(name("el"), " = Enter", constant, "(", name("limit"), ")"));
    Line(StrCat(name("ec"), " = Enter", constant, "(", Pick(values_), ")"));
    Line(StrCat(name("mi"), " = Merge(", name("ei"), ", ", name("ni"), ")"));
    Line(StrCat(name("mv"), " = Merge(", name("ev"), ", ", name("nv"), ")"));
    Line(StrCat(name("less"), " = TestLess(", name("mi"), ", ", name("el"), ")"));
    Line(StrCat(name("cond"), " = LoopCond(", name("less"), ")"));
    Line(StrCat(name("si"), " = Switch(", name("mi"), ", ", name("cond"), ")"));
    Line(StrCat(name("sv"), " = Switch(", name("mv"), ", ", name("cond"), ")"));
    Line(StrCat(name("pivot"), " = Identity(", name("si"), ":1)"));
    Line(StrCat(name("one"), " = Const[value=int32{1}](^", name("pivot"), ")"));
    Line(StrCat(name("i"), " = TestAdd(", name("si"), ":1, ", name("one"), ")"));
    // Only with the pivot: what depends on loop constants alone would be alive in every iteration,
    // and so would the next one.
    Line(StrCat(name("c"), " = TestNeg(", name("ec"), ", ^", name("pivot"), ")"));
    std::vector<std::string> inside = {name("sv") + ":1", name("one"), name("i"), name("c")};
    for (int i = Random(4); i >= 0; --i) inside.push_back(Op(inside, Random(3) ? "" : name("pivot")));
    Line(StrCat(name("ni"), " = NextIteration(", name("i"), ")"));
    Line(StrCat(name("nv"), " = NextIteration(", inside.back(), ")"));
    Line(StrCat(name("xv"), " = Exit(", name("sv"), ")"));
    values_.push_back(name("xv"));
  }

  std::mt19937 rng_;
  std::string text_;
  std::vector<std::string> values_, prints_;
  int count_ = 0;
};

void CheckSame(const Interpretation& a, const Interpretation& b) {
  BOOST_TEST((a.retvals == b.retvals));
  BOOST_TEST((a.printed == b.printed));
  BOOST_TEST(b.unclaimed == 0);
  BOOST_TEST(b.stuck.empty(), StrJoin(b.stuck, ", "));
}

BOOST_AUTO_TEST_SUITE(property)

BOOST_AUTO_TEST_CASE(passes_keep_results) {
  const std::vector<std::string> names = {"/job:w/replica:0/task:0/device:CPU:0",
                                          "/job:w/replica:0/task:1/device:CPU:0",
                                          "/job:w/replica:0/task:1/device:CPU:1"};
  const DeviceSet devices = *DeviceSet::Make({{names[0], 1, 0}, {names[1], 2, 0}, {names[2], 3, 0}});
  int folded = 0, merged = 0, messages = 0;
  for (int seed = 1; seed <= 200; ++seed) {
    RandomGraph random(seed);
    BOOST_TEST_CONTEXT("seed " << seed << "\n" << random.text()) {
      auto graph = MustParse(random.text());
      const std::vector<std::string> fetches = random.Fetches();
      const absl::Status valid = graph->Validate();
      BOOST_REQUIRE_MESSAGE(valid.ok(), valid.ToString());
      auto pruned = PruneForExecution(*graph, std::vector<std::string>{"x", "y"}, fetches, random.prints());
      BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status().ToString());
      std::vector<Tensor> args = {Tensor::Scalar<int32_t>(random.Random(5)), Tensor::Scalar<int32_t>(random.Random(5))};
      const Interpretation expected = Interpret({pruned->graph.get()}, args);
      BOOST_REQUIRE(expected.retvals.size() == fetches.size());

      std::unique_ptr<Graph> optimized = pruned->graph->Clone();
      TestOpEvaluator evaluator;
      const auto fold = FoldConstants(optimized.get(), &evaluator);
      BOOST_REQUIRE_MESSAGE(fold.ok(), fold.status().ToString());
      folded += fold->replaced;
      CheckSame(expected, Interpret({optimized.get()}, args));
      const auto cse = EliminateCommonSubexpressions(optimized.get());
      BOOST_REQUIRE(cse.ok());
      merged += *cse;
      CheckSame(expected, Interpret({optimized.get()}, args));

      for (Graph* g : {pruned->graph.get(), optimized.get()}) {
        for (Node* n : g->op_nodes()) n->set_assigned_device(names[random.Random(3)]);
        auto parts = PartitionGraph(g, devices);
        BOOST_REQUIRE_MESSAGE(parts.ok(), parts.status().ToString());
        std::vector<const Graph*> graphs;
        for (const GraphPart& p : *parts) graphs.push_back(p.graph.get());
        const Interpretation cut = Interpret(graphs, args);
        messages += cut.messages;
        CheckSame(expected, cut);
      }
    }
  }
  // The generator makes something to do for every pass.
  BOOST_TEST(folded > 50);
  BOOST_TEST(merged > 100);
  BOOST_TEST(messages > 5000);
}

BOOST_AUTO_TEST_CASE(time_of_each_pass_on_a_large_graph) {
  Graph graph;
  Node* x = *NodeBuilder(&graph, "x", "TestFeed").Attr("dtype", DType::kInt32).Build();
  Node* last = x;
  Node* constant = nullptr;
  for (int i = 0; i < 9000; ++i) {
    const std::string scope = StrCat("layer_", i, "/");
    constant = *NodeBuilder(&graph, scope + "c", "Const")
                    .Attr("dtype", DType::kInt32)
                    .Attr("value", Tensor::Scalar<int32_t>(i % 50))
                    .Build();
    Node* neg = *NodeBuilder(&graph, scope + "neg", "TestNeg").Input(constant).Build();
    Node* add = *NodeBuilder(&graph, scope + "add", "TestAdd").Input(last).Input(neg).Build();
    last = *NodeBuilder(&graph, scope + "sub", "TestSub").Input(add).Input(x).Build();
  }
  const std::vector<std::string> cpus = {"/job:w/replica:0/task:0/device:CPU:0",
                                         "/job:w/replica:0/task:1/device:CPU:0"};
  const DeviceSet devices = *DeviceSet::Make({{cpus[0], 1, 0}, {cpus[1], 2, 0}});
  std::string report;
  const auto timed = [&](const char* what, auto&& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    StrAppend(&report, what, " ", static_cast<int>(ms), " ms, ");
  };
  PrunedGraph pruned;
  TestOpEvaluator evaluator;
  timed("prune", [&] {
    pruned = *PruneForExecution(graph, std::vector<std::string>{"x"}, std::vector<std::string>{last->name()}, {});
  });
  timed("fold", [&] { BOOST_TEST(FoldConstants(pruned.graph.get(), &evaluator)->replaced == 9000); });
  timed("merge", [&] { BOOST_TEST(*EliminateCommonSubexpressions(pruned.graph.get()) == 9000 - 50); });
  timed("place", [&] { BOOST_TEST(PlaceGraph(pruned.graph.get(), devices, EveryKernel()).ok()); });
  const std::vector<Node*> nodes = pruned.graph->op_nodes();
  for (size_t i = nodes.size() / 2; i < nodes.size(); ++i) nodes[i]->set_assigned_device(cpus[1]);
  timed("cut", [&] { BOOST_TEST(PartitionGraph(pruned.graph.get(), devices)->size() == 2); });
  BOOST_TEST_MESSAGE("36,000 nodes: " << report);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace property_test
}  // namespace troupe
