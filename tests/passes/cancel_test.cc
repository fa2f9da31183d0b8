// Whoever waits for a signature may go: every pass can be left.
#include <boost/test/unit_test.hpp>

#include "graph/core/hash_map.h"
#include "graph/passes/cse.h"
#include "graph/passes/fold.h"
#include "graph/passes/fuse.h"
#include "graph/passes/partition.h"
#include "graph/passes/place.h"
#include "graph/passes/prune.h"
#include "tests/passes/graphs.h"
#include "tests/passes/interpreter.h"
#include "troupe/session.h"

namespace troupe {
namespace cancel_test {

class EveryKernel : public KernelLookup {
 public:
  bool HasKernel(const Node&, const std::string&) const override { return true; }
};

const std::string kA = "/job:w/replica:0/task:0/device:CPU:0", kB = "/job:w/replica:0/task:1/device:CPU:0";

std::unique_ptr<Graph> SomeGraph() {
  return MustParse(R"(
    a = Const[value=int32{1}]
    b = TestNeg(a)
    c = TestFeed[dtype=int32]
    d = TestAdd(b, c)
    h = TestHandle
    r = TestRead(h))");
}

class Evaluator : public ConstantEvaluator {
 public:
  explicit Evaluator(std::atomic<bool>* flag) : flag_(flag) {}
  absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> in) override {
    if (++evaluated == 3) *flag_ = true;
    return ComputeTestOp(node, {in.begin(), in.end()});
  }
  bool CanEvaluate(const Node& node) override { return node.op().name.starts_with("Test"); }
  int evaluated = 0;

 private:
  std::atomic<bool>* const flag_;
};

BOOST_AUTO_TEST_SUITE(cancel)

BOOST_AUTO_TEST_CASE(every_pass_is_left_when_nobody_waits) {
  const DeviceSet devices = *DeviceSet::Make({{kA, 1, 0}, {kB, 2, 0}});
  for (const bool leave : {false, true}) {
    const std::function<absl::Status()> wanted = [leave] {
      return leave ? Cancelled("they have gone") : absl::OkStatus();
    };
    const auto check = [&](const char* what, const absl::Status& s) {
      BOOST_TEST((s.code() == (leave ? absl::StatusCode::kCancelled : absl::StatusCode::kOk)),
                 what << ": " << s.ToString());
      if (leave) BOOST_TEST(s.message() == "they have gone", what);
    };
    PruneOptions prune;
    prune.wanted = &wanted;
    check("prune", PruneForExecution(*SomeGraph(), Names{"c"}, Names{"d"}, {}, prune).status());
    std::atomic<bool> other = leave;
    Evaluator evaluator(&other);
    FoldOptions fold;
    fold.wanted = &wanted;
    check("fold", FoldConstants(SomeGraph().get(), &evaluator, fold).status());
    check("merge", EliminateCommonSubexpressions(SomeGraph().get(), &wanted).status());
    for (const bool simulate : {false, true}) {
      HashMap<std::string, std::string> known;
      PlaceOptions place;
      place.wanted = &wanted;
      place.use_cost_model = simulate;
      place.stateful_devices = &known;
      check("place", PlaceGraph(SomeGraph().get(), devices, EveryKernel(), place));
      // Nothing of a graph that was not placed is remembered.
      BOOST_TEST(known.empty() == leave);
    }
    CostModel costs;
    check("shapes", costs.InferShapes(*SomeGraph(), &wanted));
    PartitionOptions cut;
    cut.wanted = &wanted;
    auto placed = SomeGraph();
    for (Node* n : placed->op_nodes()) n->set_assigned_device(n->id() % 2 == 0 ? kA : kB);
    for (const char* n : {"h", "r"}) placed->Find(n)->set_assigned_device(kA);
    check("cut", PartitionGraph(placed.get(), devices, cut).status());
    auto product = MustParse(R"(
      x = _Arg[T=float32, index=0]
      w = _Arg[T=float32, index=1]
      b = _Arg[T=float32, index=2]
      m = MatMul(x, w)
      s = BiasAdd(m, b)
      y = _Retval[index=0](s))");
    check("fuse", FuseNodes(product.get(), EveryKernel(), &wanted).status());
  }
}

BOOST_AUTO_TEST_CASE(no_more_is_computed_when_nobody_waits) {
  std::string text = "n0 = Const[value=int32{1}]\n";
  for (int i = 1; i <= 20; ++i) StrAppend(&text, "n", i, " = TestNeg(n", i - 1, ")\n");
  auto graph = MustParse(text);
  std::atomic<bool> flag = false;
  const std::function<absl::Status()> wanted = [&] { return flag ? Cancelled("they have gone") : absl::OkStatus(); };
  Evaluator evaluator(&flag);
  FoldOptions fold;
  fold.wanted = &wanted;
  BOOST_TEST((FoldConstants(graph.get(), &evaluator, fold).status().code() == absl::StatusCode::kCancelled));
  BOOST_TEST(evaluator.evaluated == 3);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cancel_test
}  // namespace troupe
