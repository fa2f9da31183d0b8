// Pruning: graphs as text, feeds, fetches and targets, and what is left.
#include "graph/passes/prune.h"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "tests/passes/graphs.h"
#include "troupe/node_builder.h"

namespace troupe {
namespace prune_test {

using Names = std::vector<std::string>;

struct Case {
  const char* what;
  Names feeds, fetches, targets;
  const char* after;
};

const char* kGraph = R"(
  x = TestFeed[dtype=float32, shape=[2,?]]
  y = TestFeed[dtype=float32]
  two = TestSplit(x)
  loss = TestAdd(two, y)
  other = TestNeg(two:1)
  log = TestPrint(loss)
  init = TestNone(^log, ^two)
  v = TestVar
  assign = TestAssign(v, other)
  read = TestNeg(v)
)";

BOOST_AUTO_TEST_SUITE(prune)

BOOST_AUTO_TEST_CASE(each_graph_is_pruned_to_the_one_beside_it) {
  const Case kCases[] = {
      {"cut at the feeds",
       {"x", "y:0"},
       {"loss"},
       {},
       R"(_arg_x_0 = _Arg[T=float32, index=0]
          _arg_y_0 = _Arg[T=float32, index=1]
          two = TestSplit(_arg_x_0)
          loss = TestAdd(two, _arg_y_0)
          _retval_loss_0 = _Retval[index=0](loss))"},
      {"a fed output in the middle; the feed of x is not needed",
       {"x", "two:1"},
       {"other:0"},
       {},
       R"(_arg_two_1 = _Arg[T=float32, index=1]
          other = TestNeg(_arg_two_1)
          _retval_other_0 = _Retval[index=0](other))"},
      {"one output fed, the other computed",
       {"x", "two:1", "y"},
       {"other", "loss"},
       {},
       R"(_arg_x_0 = _Arg[T=float32, index=0]
          _arg_two_1 = _Arg[T=float32, index=1]
          _arg_y_0 = _Arg[T=float32, index=2]
          two = TestSplit(_arg_x_0)
          loss = TestAdd(two, _arg_y_0)
          other = TestNeg(_arg_two_1)
          _retval_other_0 = _Retval[index=0](other)
          _retval_loss_0 = _Retval[index=1](loss))"},
      {"the same fetch twice, a fed one, and a target",
       {"loss"},
       {"loss", "loss", "loss:0"},
       {"log"},
       R"(_arg_loss_0 = _Arg[T=float32, index=0]
          log = TestPrint(_arg_loss_0)
          _retval_loss_0 = _Retval[index=0](_arg_loss_0)
          _retval_loss_0_1 = _Retval[index=1](_arg_loss_0)
          _retval_loss_0_2 = _Retval[index=2](_arg_loss_0))"},
      {"control edges of a fed node come from its _Arg",
       {"two:1", "two", "log"},
       {},
       {"init"},
       R"(_arg_two_1 = _Arg[T=float32, index=0]
          _arg_log_0 = _Arg[T=float32, index=2]
          init = TestNone(^_arg_log_0, ^_arg_two_1))"},
      {"but stay where the node is needed anyway",
       {"x", "y", "two:1"},
       {},
       {"init"},
       R"(_arg_x_0 = _Arg[T=float32, index=0]
          _arg_y_0 = _Arg[T=float32, index=1]
          two = TestSplit(_arg_x_0)
          loss = TestAdd(two, _arg_y_0)
          log = TestPrint(loss)
          init = TestNone(^log, ^two))"},
      {"a fetched reference is read", {}, {"v"}, {}, "v = TestVar\n_retval_v_0 = _Retval[index=0](v)"},
      {"a fed reference that is only read",
       {"v"},
       {"read"},
       {},
       "_arg_v_0 = _Arg[T=float32, index=0]\nread = TestNeg(_arg_v_0)\n_retval_read_0 = "
       "_Retval[index=0](read)"},
      {"a fed placeholder as a target", {"x"}, {}, {"x"}, "_arg_x_0 = _Arg[T=float32, index=0]"},
      {"nothing", {}, {}, {}, ""},
  };
  auto graph = MustParse(kGraph);
  const std::string before = SortedText(*graph);
  for (const Case& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      auto pruned = PruneForExecution(*graph, c.feeds, c.fetches, c.targets);
      BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status().ToString());
      BOOST_TEST(SortedText(*pruned->graph) == SortedLines(c.after));
      BOOST_TEST(pruned->graph->Validate().ok());
      BOOST_REQUIRE(pruned->args.size() == c.feeds.size());
      BOOST_REQUIRE(pruned->retvals.size() == c.fetches.size());
      for (size_t i = 0; i < c.fetches.size(); ++i) {
        BOOST_TEST(*pruned->retvals[i]->Attr<int64_t>("index") == static_cast<int64_t>(i));
      }
      for (size_t i = 0; i < c.feeds.size(); ++i) {
        if (pruned->args[i]) BOOST_TEST(*pruned->args[i]->Attr<int64_t>("index") == static_cast<int64_t>(i));
      }
    }
  }
  BOOST_TEST(SortedText(*graph) == before);
}

BOOST_AUTO_TEST_CASE(a_loop_is_needed_as_a_whole) {
  auto graph = MustParse(R"(
    x = TestFeed[dtype=float32]
    e = Enter[frame_name="f"](x)
    m = Merge(e, next)
    less = TestLess(m, m)
    cond = LoopCond(less)
    sw = Switch(m, cond)
    body = TestNeg(sw:1)
    aside = TestPrint(body)
    next = NextIteration(body)
    exit = Exit(sw)
  )");
  auto pruned = PruneForExecution(*graph, Names{"x"}, Names{"exit"}, Names{});
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status().ToString());
  BOOST_TEST(SortedText(*pruned->graph) == SortedLines(R"(
    _arg_x_0 = _Arg[T=float32, index=0]
    e = Enter[frame_name="f"](_arg_x_0)
    m = Merge(e, next)
    less = TestLess(m, m)
    cond = LoopCond(less)
    sw = Switch(m, cond)
    body = TestNeg(sw:1)
    next = NextIteration(body)
    exit = Exit(sw)
    _retval_exit_0 = _Retval[index=0](exit))"));
}

BOOST_AUTO_TEST_CASE(unknown_names_and_missing_feeds_are_refused) {
  const struct {
    Names feeds, fetches, targets;
    absl::StatusCode code;
    const char* message;
  } kCases[] = {
      {{"nope", "x"},
       {"loss", "what:1"},
       {"who"},
       absl::StatusCode::kNotFound,
       "the graph has no node for feed 'nope', fetch 'what:1', target 'who'"},
      {{"x", "x:0"}, {"loss"}, {}, absl::StatusCode::kInvalidArgument, "'x:0' is fed twice"},
      {{"^x"}, {"loss"}, {}, absl::StatusCode::kInvalidArgument, "feed '^x' is a control edge"},
      {{}, {"^x"}, {}, absl::StatusCode::kInvalidArgument, "fetch '^x' is a control edge"},
      {{"x:1"}, {}, {}, absl::StatusCode::kInvalidArgument, "node 'x' (TestFeed) has 1 output"},
      {{}, {"x:y"}, {}, absl::StatusCode::kInvalidArgument, "fetch: 'x:y' is not a tensor name"},
      {{"y"},
       {"loss"},
       {},
       absl::StatusCode::kInvalidArgument,
       "placeholder 'x' (float32 [2,?]) must be fed; node 'two' needs it"},
      {{"two"},
       {"loss"},
       {},
       absl::StatusCode::kInvalidArgument,
       "placeholder 'y' (float32) must be fed; node 'loss' needs it"},
      {{}, {"loss"}, {}, absl::StatusCode::kInvalidArgument, "; placeholder 'x'"},
      {{},
       {"y"},
       {},
       absl::StatusCode::kInvalidArgument,
       "placeholder 'y' (float32) must be fed; it is asked for itself"},
      {{"v", "other"},
       {"assign"},
       {},
       absl::StatusCode::kInvalidArgument,
       "node 'assign' (TestAssign): the node writes to 'v:0'; that tensor is fed"},
      {{}, {"_SOURCE"}, {}, absl::StatusCode::kNotFound, "fetch '_SOURCE'"},
      {{}, {"lost"}, {}, absl::StatusCode::kNotFound, "for fetch 'lost'; did you mean 'loss'?"},
      {{}, {}, {"model/loss"}, absl::StatusCode::kNotFound, "for target 'model/loss'; did you mean 'loss'?"},
  };
  auto graph = MustParse(kGraph);
  for (const auto& c : kCases) {
    auto pruned = PruneForExecution(*graph, c.feeds, c.fetches, c.targets);
    BOOST_REQUIRE_MESSAGE(!pruned.ok(), c.message);
    BOOST_TEST((pruned.status().code() == c.code), c.message);
    const std::string message(pruned.status().message());
    BOOST_TEST(message.find(c.message) != std::string::npos, message);
  }
}

// What the caller can do is told when no name is near.
BOOST_AUTO_TEST_CASE(an_unknown_name_is_answered_with_near_names_or_a_hint) {
  auto graph = MustParse(kGraph);
  PruneOptions options;
  options.unknown_hint = "; ask for another";
  const Names none;
  BOOST_TEST(PruneForExecution(*graph, none, Names{"nothing_like_it"}, none, options).status().message() ==
             "the graph has no node for fetch 'nothing_like_it'; ask for another");
  BOOST_TEST(PruneForExecution(*graph, none, Names{"lossy:0"}, none, options).status().message() ==
             "the graph has no node for fetch 'lossy:0'; did you mean 'loss'?");
}

BOOST_AUTO_TEST_CASE(shapes_of_fed_placeholders_are_told_and_trusted_on_request) {
  auto graph = MustParse(kGraph);
  for (bool trust : {false, true}) {
    auto pruned = PruneForExecution(*graph, Names{"x"}, Names{"two"}, Names{}, {.trust_feed_shapes = trust});
    BOOST_REQUIRE(pruned.ok());
    BOOST_TEST(pruned->feed_shapes[0].DebugString() == "[2,?]");
    BOOST_TEST((pruned->feed_types[0] == DType::kFloat));
    BOOST_TEST(pruned->args[0]->attrs().Has("_output_shapes") == trust);
  }
}

// What is built on a tensor counts on its inferred shape, so whoever feeds it another is to be
// refused.
BOOST_AUTO_TEST_CASE(shapes_of_other_fed_tensors_are_inferred) {
  Graph graph;
  const auto node = [&](std::string_view name, std::string_view op, std::vector<NodeOut> in, AttrMap attrs = {}) {
    NodeBuilder b(&graph, name, op);
    for (const NodeOut i : in) b.Input(i);
    for (const auto& [key, value] : attrs) b.Attr(key, value);
    return NodeOut{b.Build().value(), 0};
  };
  const NodeOut x = node("x", "Placeholder", {}, {{"dtype", DType::kFloat}, {"shape", PartialTensorShape({-1, 3})}});
  const NodeOut c = node("c", "Const", {}, {{"dtype", DType::kFloat}, {"value", Tensor::Vector<float>({1, 2, 3})}});
  const NodeOut old = node("old", "Placeholder", {}, {{"dtype", DType::kFloat}, {"shape", PartialTensorShape()}});
  node("sum", "AddV2", {x, c});
  node("any", "Identity", {old});
  // A loop that doubles its variable's shape on the way back: only the entry is known.
  const AttrMap frame{{"frame_name", "f"}, {"is_constant", false}, {"parallel_iterations", 1}};
  const NodeOut enter = node("enter", "Enter", {c}, frame);
  NodeOut merge;
  merge.node = NodeBuilder(&graph, "merge", "Merge")
                   .InputList({enter})
                   .Attr("N", 2)
                   .Attr("T", DType::kFloat)
                   .AllowMissingInputs()
                   .Build()
                   .value();
  const NodeOut zero = node("zero", "Const", {}, {{"dtype", DType::kInt32}, {"value", Tensor::Scalar<int32_t>(0)}});
  const NodeOut twice{NodeBuilder(&graph, "twice", "ConcatV2").InputList({merge, merge}).Input(zero).Build().value(),
                      0};
  const NodeOut next = node("next", "NextIteration", {twice});
  BOOST_REQUIRE(graph.AddEdge(next, merge.node, 1).ok());

  const Names feeds = {"c", "sum", "any", "enter", "merge", "merge:1", "next"};
  const auto pruned = PruneForExecution(graph, feeds, Names{"sum"}, Names{}, {.trust_feed_shapes = true});
  BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
  Names shapes;
  for (const PartialTensorShape& s : pruned->feed_shapes) shapes.push_back(s.DebugString());
  const std::string unknown = PartialTensorShape().DebugString();
  BOOST_TEST(shapes == (Names{"[3]", "[?,3]", unknown, "[3]", unknown, "[]", unknown}),
             boost::test_tools::per_element());
  BOOST_TEST(pruned->args[1]->attrs().Has("_output_shapes"));
  // Of a node that contradicts itself nothing is known.
  node("bad", "MatMul", {c, c});
  BOOST_TEST(!PruneForExecution(graph, Names{"bad"}, Names{"bad"}, Names{})->feed_shapes[0].known_rank());
}

// A new signature on a graph of 36,000 nodes must take at most 50 ms; one that needs little of it
// far less.
BOOST_AUTO_TEST_CASE(cost_follows_what_is_needed) {
  Graph graph;
  Node* x = *NodeBuilder(&graph, "x", "TestFeed").Attr("dtype", DType::kFloat).Build();
  Node* last = x;
  for (int i = 0; i < 36000; ++i) {
    last = *NodeBuilder(&graph, StrCat("layer/scope/node_", i), "TestAdd", false).Input(last).Input(x).Build();
  }
  const auto measure = [&](const std::string& fetch, int* nodes) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      auto pruned = PruneForExecution(graph, Names{"x"}, Names{fetch}, Names{});
      best =
          std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
      BOOST_REQUIRE(pruned.ok());
      *nodes = pruned->graph->num_nodes();
    }
    return best;
  };
  int nodes = 0;
  const double all = measure("layer/scope/node_35999", &nodes);
  BOOST_TEST(nodes == 36004);
  const double few = measure("layer/scope/node_9", &nodes);
  BOOST_TEST(nodes == 14);
  BOOST_TEST_MESSAGE("prune: all of 36,000 nodes " << all << " ms, ten of them " << few << " ms");
  BOOST_TEST(few * 20 < all);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prune_test
}  // namespace troupe
