// Graphs at the edge of what a part can be: control flow outside of loops, loops nested deeper than
// a stack, nodes with very many inputs, consumers or outputs.
#include <boost/test/unit_test.hpp>
#include <time.h>

#include "actors/executor/step_state.h"
#include "graph/passes/prune.h"
#include "kernels/run_kernel.h"
#include "tests/actors/graphs.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace odd_graphs_test {

Node* Build(NodeBuilder& b) {
  auto n = b.Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  return *n;
}

// What a step of `target` says; it must come soon.
absl::Status RunTarget(const Scope& root, const Names& targets, SessionOptions options = {},
                       int64_t timeout_ms = 20000) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  auto session = Session::Create(options).value();
  // In bytes a graph is read, and so refused, before it is run.
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  RunOptions run;
  run.timeout_ms = timeout_ms;
  return session->Run(run, {}, {}, targets, nullptr, nullptr);
}

BOOST_AUTO_TEST_CASE(a_next_iteration_outside_of_a_loop_is_refused) {
  for (const bool messages : {false, true}) {
    Scope root = Scope::NewRootScope();
    const Output x = ops::Const(root, 1.0f);
    Node* const next = Build(NodeBuilder(root.graph(), "next", "NextIteration").Input(NodeOut{x.node(), 0}));
    Build(NodeBuilder(root.graph(), "after", "Neg").Input(NodeOut{next, 0}));
    const absl::Status s = RunTarget(root, {"after"}, {.fold_constants = false, .token_messages = messages});
    BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument, s);
    BOOST_TEST(std::string(s.message()).find("node 'next'") != std::string::npos, s);
    BOOST_TEST(std::string(s.message()).find("no Enter") != std::string::npos, s);
  }
}

BOOST_AUTO_TEST_CASE(an_exit_outside_of_a_loop_is_refused) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Const(root, 1.0f);
  Build(NodeBuilder(root.graph(), "exit", "Exit").Input(NodeOut{x.node(), 0}));
  const absl::Status s = RunTarget(root, {"exit"}, {.fold_constants = false});
  BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument, s);
  BOOST_TEST(std::string(s.message()).find("'exit'") != std::string::npos, s);
}

// merge -> neg -> next -> merge, in the root or with nothing that leads in.
BOOST_AUTO_TEST_CASE(a_cycle_without_an_enter_is_refused) {
  for (const bool fed : {true, false}) {
    Scope root = Scope::NewRootScope();
    Node* const merge = *root.graph()->AddNode("merge", "Merge", [] {
      AttrMap attrs;
      attrs.Set("T", DType::kFloat);
      attrs.Set("N", int64_t{2});
      return attrs;
    }());
    Node* const neg = Build(NodeBuilder(root.graph(), "neg", "Neg").Input(NodeOut{merge, 0}));
    Node* const next = Build(NodeBuilder(root.graph(), "next", "NextIteration").Input(NodeOut{neg, 0}));
    const Output x = ops::Const(root, 1.0f);
    BOOST_REQUIRE(root.graph()->AddEdge(fed ? x.node() : next, 0, merge, 0).ok());
    BOOST_REQUIRE(root.graph()->AddEdge(next, 0, merge, 1).ok());
    const absl::Status s = RunTarget(root, {"neg"}, {.fold_constants = false});
    BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument, s);
    BOOST_TEST(std::string(s.message()).find("node '") != std::string::npos, s);
  }
}

// Enter into Enter into Enter: no loop has an Exit, each ends with the one in it.
BOOST_AUTO_TEST_CASE(loops_may_be_nested_deeper_than_a_stack) {
  constexpr int kDepth = 50000;
  Scope root = Scope::NewRootScope();
  Node* at = ops::Const(root, 1.0f).node();
  for (int i = 0; i < kDepth; ++i) {
    at = Build(NodeBuilder(root.graph(), StrCat("enter", i), "Enter")
                   .Input(NodeOut{at, 0})
                   .Attr("frame_name", StrCat("frame", i))
                   .Attr("parallel_iterations", 1));
  }
  Build(NodeBuilder(root.graph(), "inside", "Neg").Input(NodeOut{at, 0}));
  auto pruned = PruneForExecution(*root.graph(), {}, {}, {"inside"});
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
  auto part = CompiledPart::Compile(*pruned->graph, EvaluationDevice(1), SessionScope("odd"));
  BOOST_REQUIRE_MESSAGE(part.ok(), part.status());
  struct Host : StepHost {
    void RingDoorbell() override {}
    const EdgeTable& edges() const override { return table; }
    absl::Status SendToPart(part_message) override { return absl::OkStatus(); }
    std::shared_ptr<void> KeepAlive() override { return nullptr; }
    void ResultReady(uint32_t, Tensor) override {}
    void PostToken(Token) override {}
    EdgeTable table;
  } host;
  StepState state(*part, &host);
  StepInput input;
  for (const bool aborted : {false, true, false}) {
    input.context = std::make_shared<StepContext>();
    input.context->step_id = aborted ? 2 : 1;
    state.Begin(input);
    BOOST_TEST(state.Drain(aborted ? kDepth - 10 : 10 * kDepth) == aborted);
    if (aborted) state.Abort(absl::CancelledError("enough"));
    BOOST_REQUIRE(state.done());
    BOOST_TEST((state.Finish().code() == (aborted ? absl::StatusCode::kCancelled : absl::StatusCode::kOk)));
  }
}

// Of this thread's own work: other programs do not count.
double ThreadSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double CompileSeconds(int inputs, int consumers) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  Graph& g = *root.graph();
  AttrMap attrs;
  attrs.Set("T", DType::kFloat);
  attrs.Set("N", int64_t{inputs});
  Node* const sum = *g.AddNode("sum", "AddN", attrs);
  for (int i = 0; i < inputs; ++i) BOOST_REQUIRE(g.AddEdge(x.node(), 0, sum, i).ok());
  AttrMap one;
  one.Set("T", DType::kFloat);
  for (int i = 0; i < consumers; ++i) {
    Node* const n = *g.AddNode(StrCat("n", i), "Neg", one);
    BOOST_REQUIRE(g.AddEdge(x.node(), 0, n, 0).ok());
  }
  const double begin = ThreadSeconds();
  auto part = CompiledPart::Compile(g, EvaluationDevice(1), SessionScope("odd"));
  const double seconds = ThreadSeconds() - begin;
  BOOST_REQUIRE_MESSAGE(part.ok(), part.status());
  return seconds;
}

// What was refused above 65000; ten times the edges take about ten times as long.
BOOST_AUTO_TEST_CASE(many_inputs_and_consumers_compile_in_linear_time) {
  const double few = std::min(CompileSeconds(20000, 20000), CompileSeconds(20000, 20000));
  const double many = CompileSeconds(200000, 200000);
  BOOST_TEST(many < 60 * few, many << " s for ten times as much as " << few << " s");
}

BOOST_AUTO_TEST_CASE(a_hundred_thousand_inputs_are_added) {
  constexpr int kInputs = 100000;
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  AttrMap attrs;
  attrs.Set("T", DType::kFloat);
  attrs.Set("N", int64_t{kInputs});
  Node* const sum = *root.graph()->AddNode("sum", "AddN", attrs);
  for (int i = 0; i < kInputs; ++i) BOOST_REQUIRE(root.graph()->AddEdge(x.node(), 0, sum, i).ok());
  auto session = NewSession(root);
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({{"x", Tensor::Scalar(2.0f)}}, {"sum"}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 2.0f * kInputs);
}

// An edge has fifteen bits for the output that it comes from.
BOOST_AUTO_TEST_CASE(too_many_outputs_are_refused_by_name) {
  for (const int outputs : {kMaxOutputs, kMaxOutputs + 1}) {
    Scope root = Scope::NewRootScope();
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    AttrMap attrs;
    attrs.Set("T", DType::kFloat);
    attrs.Set("num", int64_t{outputs});
    attrs.Set("axis", int64_t{0});
    Node* const unpack = *root.graph()->AddNode("unpack", "Unpack", attrs);
    BOOST_REQUIRE(root.graph()->AddEdge(x.node(), 0, unpack, 0).ok());
    const std::string last = StrCat("unpack:", outputs - 1);
    auto session = NewSession(root);
    std::vector<Tensor> out;
    Tensor values(DType::kFloat, TensorShape({outputs}));
    for (int i = 0; i < outputs; ++i) values.data<float>()[i] = static_cast<float>(i);
    const absl::Status s = session->Run({{"x", values}}, {last}, {}, &out);
    if (outputs == kMaxOutputs) {
      TROUPE_REQUIRE_OK(s);
      BOOST_TEST(out[0].scalar<float>() == static_cast<float>(outputs - 1));
    } else {
      BOOST_TEST(s.code() == absl::StatusCode::kInvalidArgument, s);
      BOOST_TEST(std::string(s.message()).find("node 'unpack' (Unpack)") != std::string::npos, s);
      BOOST_TEST(std::string(s.message()).find("at most 32767 outputs, not 32768") != std::string::npos, s);
    }
  }
}

}  // namespace odd_graphs_test
}  // namespace troupe
