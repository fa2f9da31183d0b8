// Graphs with ops that do not exist here: a step that does not need them runs.
#include <boost/test/unit_test.hpp>

#include "tests/import/ops_test.h"
#include "troupe/gradients.h"
#include "troupe/scope.h"
#include "troupe/session.h"

namespace troupe {
namespace unknown_ops_test {

// A file is decoded by ops that are not here, and what comes of them is multiplied.
//   name (Const) -> Decode -> wav:2 -> Scale(features) -> y ; summary (TellAll) reads y
constexpr char kGraph[] = R"(
  node { name: 'name' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } }
         attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape { } string_val: 'a.wav' } } } }
  node { name: 'wav' op: 'DecodeNoise' input: 'name' attr { key: 'rate' value { i: 3 } } }
  node { name: 'mfcc' op: 'Mfcc_' input: 'wav:1' input: 'name' }
  node { name: 'two' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }
         attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 2 } } } }
  node { name: 'y' op: 'Mul' input: 'wav:2' input: 'two' attr { key: 'T' value { type: DT_FLOAT } } }
  node { name: 'summary' op: 'TellAll' input: 'y' input: '^mfcc' attr { key: 'T' value { type: DT_FLOAT } } }
  node { name: 'alone' op: 'Neg' input: 'two' input: '^name' attr { key: 'T' value { type: DT_FLOAT } } })";

std::unique_ptr<Session> SessionOf(const proto::GraphDef& def) {
  auto session = *Session::Create();
  const absl::Status s = session->Extend(def);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  return session;
}

BOOST_AUTO_TEST_CASE(a_step_that_needs_no_unknown_op_runs) {
  const auto session = SessionOf(ParseGraph(kGraph));
  std::vector<Tensor> out;
  absl::Status s = session->Run({}, {"alone"}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_TEST(out[0].scalar<float>() == -2.0f);
  // What the unknown op would compute is fed.
  s = session->Run({{"wav:2", Tensor::Of<float>({3.0f, 4.0f}, TensorShape({2}))}}, {"y"}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_TEST(out[0].DebugString() == "float32 [2] [6 8]");
}

BOOST_AUTO_TEST_CASE(a_step_that_needs_one_is_refused_and_names_them_all) {
  const auto session = SessionOf(ParseGraph(kGraph));
  std::vector<Tensor> out;
  const auto refused = [&](const Names& fetches, const Names& targets) {
    const absl::Status s = session->Run({}, fetches, targets, &out);
    BOOST_TEST(s.code() == absl::StatusCode::kNotFound);
    BOOST_TEST(IsUnknownOps(s));
    return std::string(s.message());
  };
  BOOST_TEST(refused({"y"}, {}) == "the step needs 1 op that does not exist here: 'DecodeNoise' (node 'wav')");
  BOOST_TEST(refused({}, {"summary"}) ==
             "the step needs 3 ops that do not exist here: 'DecodeNoise' (node 'wav'), 'Mfcc_' (node 'mfcc'), "
             "'TellAll' (node 'summary')");
  BOOST_TEST(refused({"mfcc:0"}, {}) ==
             "the step needs 2 ops that do not exist here: 'DecodeNoise' (node 'wav'), 'Mfcc_' (node 'mfcc')");
  // Of another type than those who take it ask for.
  BOOST_TEST(session->Run({{"wav:2", Tensor::Scalar(1)}}, {"y"}, {}, &out).code() ==
             absl::StatusCode::kInvalidArgument);
  BOOST_REQUIRE(session->Run({}, {"alone"}, {}, &out).ok());
}

// Later nodes take outputs that nothing took before: of another number, or with a type that nothing
// had told.
BOOST_AUTO_TEST_CASE(later_nodes_may_take_further_outputs) {
  const auto session = SessionOf(ParseGraph("node { name: 'a' op: 'Decode' } node { name: 'sink' op: 'Decode' }"));
  const auto extend = [&](const std::string& input, const char* type) {
    return session->Extend(ParseGraph("node { name: 'neg_" + std::string(1, input.back()) + type +
                                      "' op: 'Neg' input: '" + input + "' attr { key: 'T' value { type: " + type +
                                      " } } }"));
  };
  std::vector<Tensor> out;
  const auto negated = [&](const std::string& fetch, const std::string& feed) {
    const absl::Status s = session->Run({{feed, Tensor::Scalar(3.0f)}}, {fetch}, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    return out[0].scalar<float>();
  };
  for (const std::string output : {"a:2", "a:1", "sink"}) {
    const absl::Status s = extend(output, "DT_FLOAT");
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    BOOST_TEST(negated("neg_" + std::string(1, output.back()) + "DT_FLOAT", output) == -3.0f);
  }
  // A type that was told stays.
  BOOST_TEST(extend("a:1", "DT_INT32").message() ==
             "node 'neg_1DT_INT32' (Neg): input 0 must be int32, but 'a:1' is float32");
  BOOST_TEST(negated("neg_2DT_FLOAT", "a:2") == -3.0f);
  BOOST_TEST(IsUnknownOps(session->Run({}, {"neg_1DT_FLOAT"}, {}, &out)));
}

BOOST_AUTO_TEST_CASE(a_graph_that_grows_may_take_further_outputs) {
  const Scope root = Scope::NewRootScope();
  BOOST_REQUIRE(ImportGraphDef(ParseGraph("node { name: 'a' op: 'Decode' }"), {}, root.graph()).ok());
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  const auto imported =
      ImportGraphDef(ParseGraph("node { name: 'n' op: 'Neg' input: 'a:1' attr { key: 'T' value { type: DT_FLOAT } } }"),
                     {.return_outputs = {"a:1"}}, root.graph());
  BOOST_REQUIRE_MESSAGE(imported.ok(), imported.status());
  BOOST_REQUIRE((imported->return_outputs[0].dtype() == DType::kFloat));
  const absl::Status s = session->Extend(*root.graph());
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  std::vector<Tensor> out;
  BOOST_REQUIRE(session->Run({{"a:1", Tensor::Scalar(4.0f)}}, {"n"}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<float>() == -4.0f);
}

// As streams and logs print it.
BOOST_AUTO_TEST_CASE(the_error_is_printed_as_one_sentence) {
  const auto session = SessionOf(ParseGraph(kGraph));
  std::vector<Tensor> out;
  std::ostringstream text;
  text << session->Run({}, {"y"}, {}, &out);
  BOOST_TEST(text.str() == "NOT_FOUND: the step needs 1 op that does not exist here: 'DecodeNoise' (node 'wav')");
}

BOOST_AUTO_TEST_CASE(calls_of_functions_are_answered_with_what_to_do) {
  const auto session = SessionOf(ParseGraph(R"(
      node { name: 'x' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }
             attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 2 } } } }
      node { name: 'loop' op: 'StatelessWhile' input: 'x' attr { key: 'cond' value { func { name: 'c' } } } })"));
  std::vector<Tensor> out;
  const absl::Status s = session->Run({}, {"loop:0"}, {}, &out);
  BOOST_TEST(s.message().find("tf.compat.v1.disable_control_flow_v2()") != std::string::npos, s.ToString());
}

BOOST_AUTO_TEST_CASE(an_imported_graph_keeps_them_when_it_is_exported) {
  const proto::GraphDef def = ParseGraph(kGraph);
  Graph graph;
  BOOST_REQUIRE(ImportGraphDef(def, {}, &graph).ok());
  BOOST_TEST(graph.Find("wav")->IsUnknown());
  BOOST_TEST(graph.Find("wav")->num_outputs() == 3);
  BOOST_TEST(!graph.Find("y")->IsUnknown());
  const std::unique_ptr<Graph> copy = graph.Clone();
  proto::GraphDef again;
  ExportGraphDef(*copy, &again);
  BOOST_REQUIRE_EQUAL(again.node_size(), def.node_size());
  for (int i = 0; i < def.node_size(); ++i) {
    BOOST_TEST(again.node(i).op() == def.node(i).op());
    BOOST_TEST(again.node(i).input_size() == def.node(i).input_size());
    if (def.node(i).name() != "wav") continue;
    BOOST_TEST(again.node(i).attr().at("rate").i() == 3);
  }
}

BOOST_AUTO_TEST_CASE(a_copy_outlives_the_graph_it_was_imported_into) {
  std::unique_ptr<Graph> copy;
  {
    Graph graph;
    BOOST_REQUIRE(ImportGraphDef(ParseGraph(kGraph), {}, &graph).ok());
    copy = graph.Clone();
  }
  BOOST_TEST(copy->Find("mfcc")->op().name == "Mfcc_");
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_around_them_is_still_refused) {
  Graph graph;
  const auto message = [&](const std::string& text) {
    return std::string(ImportGraphDef(ParseGraph(text), {}, &graph).status().message());
  };
  BOOST_TEST(message("node { name: 'a' op: '' }") == "the graph has 1 op that does not exist here: '' (node 'a')");
  BOOST_TEST(message("node { name: 'a' op: 'Zork' } node { name: 'b' op: 'Zork' input: 'a:70000' }") ==
             "node 'b' (Zork): input 0 is output 70000 of node 'a', whose op does not exist here: no op has so many");
  BOOST_TEST(message("node { name: 'a' op: 'Zork' input: 'a' }") ==
             "node 'a' (Zork): the node is on a cycle without an edge from a NextIteration to a Merge: 'a' -> 'a'");
  BOOST_TEST(message("node { name: 'a' op: 'Zork' input: 'b' }") == "node 'a' (Zork): input 'b': there is no node 'b'");
  BOOST_TEST(graph.num_nodes() == 2);
}

BOOST_AUTO_TEST_CASE(there_is_no_gradient_through_them) {
  const Scope root = Scope::NewRootScope();
  BOOST_REQUIRE(ImportGraphDef(ParseGraph(kGraph), {}, root.graph()).ok());
  const Output y(NodeOut{root.graph()->Find("y"), 0}), name(NodeOut{root.graph()->Find("name"), 0});
  const Output wav(NodeOut{root.graph()->Find("wav"), 2});
  BOOST_TEST(Gradients(root, {y}, {wav}).size() == 1u);  // up to them there is
  BOOST_TEST(root.ok(), root.status().ToString());
}

}  // namespace unknown_ops_test
}  // namespace troupe
