// What an import makes of good graphs, its options, and the way back.
#include <boost/test/unit_test.hpp>

#include <google/protobuf/util/message_differencer.h>

#include "tests/import/ops_test.h"
#include "troupe/proto/function.pb.h"
#include "troupe/proto/op_def.pb.h"

namespace troupe {
namespace import_test {

const std::string kConst = R"(attr { key: 'dtype' value { type: DT_FLOAT } }
  attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } })";
const std::string kT = "attr { key: 'T' value { type: DT_FLOAT } }";

const std::string kLoop = R"(
  node { name: 'a' op: 'ImpConst' )" +
                          kConst + R"( }
  node { name: 'enter' op: 'ImpEnter' input: 'a' attr { key: 'frame_name' value { s: 'loop' } } )" +
                          kT + R"( }
  node { name: 'merge' op: 'ImpMerge' input: 'enter' input: 'next' attr { key: 'N' value { i: 2 } } )" +
                          kT + R"( }
  node { name: 'body' op: 'ImpIdentity' input: 'merge' )" +
                          kT + R"( device: '/device:CPU:0' }
  node { name: 'next' op: 'ImpNextIteration' input: 'body' input: '^a' )" +
                          kT + R"( }
  node { name: 'done' op: 'ImpNoOp' input: '^merge' input: '^body' }
  versions { producer: 40 min_consumer: 12 })";

std::unique_ptr<Graph> Import(const std::string& text, const ImportOptions& options = {}) {
  auto graph = std::make_unique<Graph>();
  const auto result = ImportGraphDef(ParseGraph(text), options, graph.get());
  BOOST_REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  return graph;
}

proto::GraphDef Export(const Graph& graph, bool strip_defaults = false) {
  proto::GraphDef def;
  ExportGraphDef(graph, &def, strip_defaults);
  return def;
}

bool Equal(const proto::GraphDef& a, const proto::GraphDef& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a, b);
}

BOOST_AUTO_TEST_CASE(a_graph_with_a_loop_comes_back_as_it_was) {
  const auto graph = Import(kLoop);
  BOOST_TEST(graph->num_nodes() == 8);
  BOOST_TEST(graph->Validate().ok());
  BOOST_TEST(graph->producer == 40);
  BOOST_TEST(graph->min_consumer == 12);
  const Node* merge = graph->Find("merge");
  BOOST_TEST((merge->input(1).node == graph->Find("next")));
  BOOST_TEST(graph->Find("body")->requested_device() == "/device:CPU:0");
  const proto::GraphDef want = ParseGraph(kLoop);
  BOOST_TEST(Equal(Export(*graph), want), Export(*graph).DebugString());
  BOOST_TEST(Equal(Export(*Import(Export(*graph).DebugString())), want));
}

BOOST_AUTO_TEST_CASE(nodes_may_come_in_any_order) {
  proto::GraphDef def = ParseGraph(kLoop), reversed;
  for (int i = def.node_size(); i-- > 0;) *reversed.add_node() = def.node(i);
  Graph graph;
  BOOST_REQUIRE(ImportGraphDef(reversed, {}, &graph).ok());
  BOOST_TEST(graph.num_nodes() == 8);
  BOOST_TEST((graph.Find("body")->input(0).node == graph.Find("merge")));
}

BOOST_AUTO_TEST_CASE(defaults_are_filled_in_and_stripped) {
  const auto graph = Import(
      "node { name: 'n' op: 'ImpAttrs' attr { key: 'i' value { i: 3 } } attr { key: 'f' value { f: 2 } } "
      "attr { key: '_z' value { i: 1 } } attr { key: '_a' value { s: 'kept' } } }");
  const Node* n = graph->Find("n");
  BOOST_TEST(*n->Attr<std::string>("s") == "d");
  BOOST_TEST(*n->Attr<float>("f") == 2.0f);
  BOOST_TEST(n->Attr<std::vector<int64_t>>("ints")->size() == 2u);
  BOOST_TEST(n->attrs().size() == 13u);
  const proto::GraphDef stripped = Export(*graph, true);
  BOOST_TEST(stripped.node(0).attr().size() == 3u);  // f, _a, _z
  BOOST_TEST(stripped.node(0).attr().contains("f"));
  BOOST_TEST(Equal(Export(*Import(stripped.DebugString())), Export(*graph)));
}

BOOST_AUTO_TEST_CASE(a_control_input_given_twice_is_one_edge) {
  const auto graph =
      Import("node { name: 'a' op: 'ImpNoOp' } node { name: 'b' op: 'ImpNoOp' input: '^a' input: '^a' input: '^a' }");
  BOOST_TEST(graph->Find("b")->in_edges().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_reference_may_feed_a_value) {
  const auto graph =
      Import("node { name: 'v' op: 'ImpVariable' " + kT + " } node { name: 'n' op: 'ImpIdentity' input: 'v:0' " + kT +
             " } node { name: 'w' op: 'ImpAssign' input: 'v' input: 'n' " + kT + " }");
  BOOST_TEST((graph->Find("n")->input(0).dtype() == MakeRef(DType::kFloat)));
}

BOOST_AUTO_TEST_CASE(a_frozen_variable_that_is_assigned_to_is_a_variable_again) {
  const std::string c =
      "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { dtype: DT_FLOAT "
      "tensor_shape { dim { size: 2 } } float_val: 1 } } }";
  const auto graph = Import("node { name: 'v' op: 'Const' " + c +
                            " attr { key: '_mark' value { b: true } } } node { name: 'x' op: 'Const' " + c +
                            " } node { name: 'n' op: 'ImpAssign' input: 'v' input: 'x' " + kT + " }");
  BOOST_TEST(graph->Find("v")->op().name == "VariableV2");
  BOOST_TEST(graph->Find("v")->Attr<PartialTensorShape>("shape")->DebugString() == "[2]");
  BOOST_TEST(*graph->Find("v")->Attr<bool>("_mark"));
  BOOST_TEST(graph->Find("x")->op().name == "Const");
}

BOOST_AUTO_TEST_CASE(a_prefix_renames_nodes_and_what_refers_to_them) {
  ImportOptions options;
  options.prefix = "scope/inner";
  options.return_outputs = {"body:0", "merge:1"};
  Graph graph;
  proto::GraphDef def = ParseGraph(kLoop);
  def.mutable_node(5)->mutable_attr()->operator[]("_class").mutable_list()->add_s("loc:@body");
  const auto result = ImportGraphDef(def, options, &graph);
  BOOST_REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  BOOST_TEST((graph.Find("body") == nullptr));
  const Node* done = graph.Find("scope/inner/done");
  BOOST_REQUIRE((done != nullptr));
  BOOST_TEST(done->Attr<std::vector<std::string>>("_class")->at(0) == "loc:@scope/inner/body");
  BOOST_TEST(result->return_outputs.at(0).ToString() == "scope/inner/body:0");
  BOOST_TEST(result->return_outputs.at(1).ToString() == "scope/inner/merge:1");
}

BOOST_AUTO_TEST_CASE(inputs_can_be_mapped_to_nodes_that_are_there) {
  auto graph = Import("node { name: 'mine' op: 'ImpConst' " + kConst + " }");
  ImportOptions options;
  options.input_map["x:0"] = {graph->Find("mine"), 0};
  options.control_dependencies = {"mine"};
  options.return_outputs = {"x:0"};
  const auto result = ImportGraphDef(
      ParseGraph("node { name: 'n' op: 'ImpIdentity' input: 'x' " + kT + " } node { name: 'root' op: 'ImpNoOp' }"),
      options, graph.get());
  BOOST_REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  BOOST_TEST((graph->Find("n")->input(0).node == graph->Find("mine")));
  BOOST_TEST(graph->Find("root")->in_edges().size() == 1u);
  BOOST_TEST((result->return_outputs.at(0).node == graph->Find("mine")));
}

BOOST_AUTO_TEST_CASE(a_second_graph_may_extend_the_first) {
  auto graph = Import("node { name: 'a' op: 'ImpConst' " + kConst + " } versions { producer: 30 }");
  const auto result = ImportGraphDef(ParseGraph("node { name: 'b' op: 'ImpIdentity' input: 'a' input: '^a' " + kT +
                                                " } versions { producer: 26 min_consumer: 5 }"),
                                     {}, graph.get());
  BOOST_REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  BOOST_TEST((graph->Find("b")->input(0).node == graph->Find("a")));
  BOOST_TEST(graph->producer == 26);
  BOOST_TEST(graph->min_consumer == 5);
}

BOOST_AUTO_TEST_CASE(taken_names_are_made_unique_on_request) {
  const std::string text =
      "node { name: 'a' op: 'ImpConst' " + kConst + " } node { name: 'a_1' op: 'ImpIdentity' input: 'a' " + kT + " }";
  auto graph = Import(text);
  ImportOptions options;
  options.uniquify_names = true;
  options.return_outputs = {"a_1"};
  for (int round = 0; round < 3; ++round) {
    const auto result = ImportGraphDef(ParseGraph(text), options, graph.get());
    BOOST_REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    const NodeOut out = result->return_outputs.at(0);
    BOOST_TEST(out.node->op().name == "ImpIdentity");
    BOOST_TEST(out.node->input(0).node->op().name == "ImpConst");
  }
  BOOST_TEST(graph->num_nodes() == 2 + 8);
}

BOOST_AUTO_TEST_CASE(wrong_options_are_said) {
  auto graph = Import("node { name: 'a' op: 'ImpNoOp' }");
  const proto::GraphDef def = ParseGraph("node { name: 'b' op: 'ImpConst' " + kConst + " }");
  const auto message = [&](const ImportOptions& o) {
    return std::string(ImportGraphDef(def, o, graph.get()).status().message());
  };
  ImportOptions o;
  o.prefix = "a b";
  BOOST_TEST(message(o) ==
             "the import's prefix: 'a b' is not a valid node name: only letters, digits and . _ \\ - / > may occur");
  o = {};
  o.control_dependencies = {"c"};
  BOOST_TEST(message(o) == "ImportOptions.control_dependencies names node 'c', which the graph does not have");
  o = {};
  o.return_outputs = {"b:1"};
  BOOST_TEST(message(o) == "ImportOptions.return_outputs names 'b:1', but the node has 1 output");
  o.return_outputs = {"^b"};
  BOOST_TEST(message(o) == "ImportOptions.return_outputs names '^b', which is no tensor");
  o.return_outputs = {"z"};
  BOOST_TEST(message(o) == "ImportOptions.return_outputs: input 'z': there is no node 'z'");
  o = {};
  o.input_map["x:0"] = {};
  BOOST_TEST(message(o) == "ImportOptions.input_map maps 'x:0' to no node of the graph");
  BOOST_TEST(graph->num_nodes() == 3);
}

BOOST_AUTO_TEST_CASE(a_default_device_is_for_nodes_without_one) {
  ImportOptions options;
  options.default_device = "/job:worker";
  const auto graph = Import(kLoop, options);
  BOOST_TEST(graph->Find("a")->requested_device() == "/job:worker");
  BOOST_TEST(graph->Find("body")->requested_device() == "/device:CPU:0");
}

BOOST_AUTO_TEST_CASE(old_placeholders_of_shape_scalar_have_no_known_shape) {
  const std::string node =
      "node { name: 'p' op: 'ImpPlaceholder' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' value "
      "{ shape { } } } }";
  BOOST_TEST(!Import(node + " versions { producer: 23 }")->Find("p")->Attr<PartialTensorShape>("shape")->known_rank());
  BOOST_TEST(Import(node + " versions { producer: 24 }")->Find("p")->Attr<PartialTensorShape>("shape")->rank() == 0);
  // What we write ourselves means what it says.
  Graph graph;
  BOOST_REQUIRE(
      graph.AddNode("p", "ImpPlaceholder", {{"dtype", DType::kFloat}, {"shape", PartialTensorShape({})}}).ok());
  BOOST_TEST(Import(Export(graph).DebugString())->Find("p")->Attr<PartialTensorShape>("shape")->rank() == 0);
}

BOOST_AUTO_TEST_CASE(the_function_library_is_kept_and_grows) {
  const std::string f =
      "library { function { signature { name: 'f' } node_def { name: 'x' op: 'ImpNoOp' } } gradient { function_name: "
      "'f' gradient_func: 'g' } }";
  auto graph = Import(f);
  BOOST_REQUIRE((graph->library() != nullptr));
  BOOST_TEST(Export(*graph).library().gradient(0).gradient_func() == "g");
  BOOST_TEST(ImportGraphDef(ParseGraph("library { function { signature { name: 'h' } } }"), {}, graph.get()).ok());
  BOOST_TEST(graph->library()->function_size() == 2);
  const absl::Status other =
      ImportGraphDef(ParseGraph("library { function { signature { name: 'f' } } }"), {}, graph.get()).status();
  BOOST_TEST(other.message() == "function 'f' is in the graph's library already, with another body");
}

BOOST_AUTO_TEST_CASE(op_definitions_are_written_as_tensorflow_writes_them) {
  proto::OpDef def;
  ExportOpDef(**OpRegistry::Global().LookUp("ImpPack"), &def);
  BOOST_TEST(def.input_arg(0).number_attr() == "N");
  BOOST_TEST(def.input_arg(0).type_attr() == "T");
  BOOST_TEST(def.attr(0).has_minimum());
  BOOST_TEST(def.attr(0).minimum() == 1);
  BOOST_TEST(def.attr(2).default_value().i() == 0);
  ExportOpDef(**OpRegistry::Global().LookUp("ImpAdd"), &def);
  BOOST_TEST(def.attr(0).allowed_values().list().type_size() == 3);
  ExportOpDef(**OpRegistry::Global().LookUp("ImpVariable"), &def);
  BOOST_TEST(def.is_stateful());
  BOOST_TEST(def.output_arg(0).is_ref());
  ExportOpDef(**OpRegistry::Global().LookUp("ImpOld"), &def);
  BOOST_TEST(def.deprecation().version() == 5);
}

BOOST_AUTO_TEST_CASE(import_takes_linear_time) {
  // A wide join and a long chain: quadratic handling of either would take minutes.
  proto::GraphDef def;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    proto::NodeDef* node = def.add_node();
    node->set_name(StrCat("n", i));
    node->set_op("ImpNoOp");
    if (i % 2 == 1) node->add_input(StrCat("^n", i - 1));
    if (i > 2 && i % 3 == 0) node->add_input(StrCat("^n", i - 3));
  }
  proto::NodeDef* done = def.add_node();
  done->set_name("done");
  done->set_op("ImpNoOp");
  for (int i = 0; i < n; ++i) done->add_input(StrCat("^n", i));
  Graph graph;
  BOOST_REQUIRE(ImportGraphDef(def, {}, &graph).ok());
  BOOST_TEST(graph.Find("done")->in_edges().size() == static_cast<size_t>(n));
}

}  // namespace import_test
}  // namespace troupe
