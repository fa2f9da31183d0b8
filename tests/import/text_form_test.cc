// Any graph, printed and read again, is the same graph: random ones, TensorFlow's own, and each of
// them with its lines in another order.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/text.h"

namespace troupe {
namespace text_form_test {

constexpr GraphTextOptions kAll = {.max_elements = 1 << 24};

// The nodes by name, each as text of the wire form with its attrs sorted: what two equal graphs
// have in common.
std::string Canonical(const Graph& graph, bool sorted) {
  proto::GraphDef def;
  ExportGraphDef(graph, &def);
  std::vector<std::string> nodes;
  for (const proto::NodeDef& n : def.node()) {
    std::vector<std::string> attrs;
    for (const auto& [name, value] : n.attr()) attrs.push_back(StrCat(name, "=", value.SerializeAsString()));
    std::sort(attrs.begin(), attrs.end());
    std::vector<std::string> data, controls;
    for (const std::string& in : n.input()) (in[0] == '^' ? controls : data).push_back(in);
    std::sort(controls.begin(), controls.end());
    nodes.push_back(StrCat(n.name(), "|", n.op(), "|", n.device(), "|", StrJoin(data, ","), "|", StrJoin(controls, ","),
                           "|", StrJoin(attrs, ";")));
  }
  if (sorted) std::sort(nodes.begin(), nodes.end());
  return StrCat(StrJoin(nodes, "\n"), "\n", def.versions().SerializeAsString());
}

void CheckReadsBack(const Graph& graph, const std::string& what, std::mt19937* random) {
  const std::string text = GraphText(graph, kAll);
  const auto again = ParseGraphText(text);
  BOOST_REQUIRE_MESSAGE(again.ok(), what << ": " << again.status().ToString());
  BOOST_CHECK_MESSAGE(Canonical(graph, false) == Canonical(**again, false), what << " differs");
  BOOST_CHECK_MESSAGE(GraphText(**again, kAll) == text, what << " prints otherwise");
  std::vector<std::string> lines = StrSplit(text, '\n');
  for (int i = 0; i < 3; ++i) {
    if (i == 0) {
      std::reverse(lines.begin(), lines.end());
    } else {
      std::shuffle(lines.begin(), lines.end(), *random);
    }
    const auto shuffled = ParseGraphText(StrJoin(lines, "\n"));
    BOOST_REQUIRE_MESSAGE(shuffled.ok(), what << ", in another order: " << shuffled.status().ToString());
    BOOST_CHECK_MESSAGE(Canonical(graph, true) == Canonical(**shuffled, true), what << " differs in another order");
  }
}

BOOST_AUTO_TEST_SUITE(text_form)

// A loop in the order in which TensorFlow writes it: `while/read` stands before what enters it.
BOOST_AUTO_TEST_CASE(a_loop_reads_in_any_order) {
  const std::string kLoop =
      "x = Placeholder[dtype=float64]\n"
      "read = Identity(enter)\n"
      "next = NextIteration(square)\n"
      "exit = Exit(switch)\n"
      "square = Mul(switch:1, switch:1)\n"
      "switch = Switch(merge, cond)\n"
      "cond = LoopCond(less)\n"
      "less = Less(merge, limit)\n"
      "merge = Merge(enter, next)\n"
      "limit = Enter[frame_name=\"f\", is_constant=true](x)\n"
      "enter = Enter[frame_name=\"f\"](x)\n";
  const auto graph = ParseGraphText(kLoop);
  BOOST_REQUIRE_MESSAGE(graph.ok(), graph.status().ToString());
  BOOST_TEST((*(*graph)->Find("merge")->Attr<DType>("T") == DType::kDouble));
  BOOST_TEST((*(*graph)->Find("read")->Attr<DType>("T") == DType::kDouble));
  std::mt19937 random(1);
  CheckReadsBack(**graph, "the loop", &random);
}

// The lengths of two lists that share one number follow from the inputs, those of others are told.
BOOST_AUTO_TEST_CASE(two_lists_of_one_length) {
  const std::string kStitch =
      "i = Const[value=int32[1]{0}]\nd = Const[value=float32[1]{2}]\n"
      "stitch = DynamicStitch(i, i, d, d)\nparallel = ParallelDynamicStitch(i, d)\n";
  const auto graph = ParseGraphText(kStitch);
  BOOST_REQUIRE_MESSAGE(graph.ok(), graph.status().ToString());
  BOOST_TEST(*(*graph)->Find("stitch")->Attr<int64_t>("N") == 2);
  BOOST_TEST((*(*graph)->Find("stitch")->Attr<DType>("T") == DType::kFloat));
  BOOST_TEST(GraphText(**graph).find("stitch = DynamicStitch(i, i, d, d)") != std::string::npos);
  std::mt19937 random(1);
  CheckReadsBack(**graph, "the stitch", &random);
}

BOOST_AUTO_TEST_CASE(versions_are_kept) {
  proto::GraphDef def;
  def.mutable_versions()->set_producer(2474);
  def.mutable_versions()->set_min_consumer(12);
  def.mutable_versions()->add_bad_consumers(23);
  def.mutable_versions()->add_bad_consumers(25);
  Graph graph;
  BOOST_REQUIRE(ImportGraphDef(def, {}, &graph).ok());
  BOOST_TEST(GraphText(graph) == "@versions[producer=2474, min_consumer=12, bad_consumers={23, 25}]\n");
  const auto again = ParseGraphText(GraphText(graph));
  BOOST_REQUIRE_MESSAGE(again.ok(), again.status().ToString());
  proto::GraphDef back;
  ExportGraphDef(**again, &back);
  BOOST_TEST(back.versions().SerializeAsString() == def.versions().SerializeAsString());
  BOOST_TEST(ParseGraphText("@versions[producer=x]").status().ToString().find("line 1") != std::string::npos);
  BOOST_TEST(!ParseGraphText("@versions[producer=-1]").ok());
  BOOST_TEST(!ParseGraphText("@versions[consumer=1]").ok());
}

// Attrs as TensorFlow's tools leave them: without value, with names and devices of any characters.
BOOST_AUTO_TEST_CASE(unusual_attrs_read_back) {
  Graph graph;
  FuncAttr f{"a function, by name", std::make_shared<AttrMap>()};
  f.attrs->Set("an attr", 3);
  const auto node = graph.AddNode("n", "NoOp",
                                  {{"_none", AttrValue()},
                                   {"_f", f},
                                   {"_g", FuncAttr{"plain", std::make_shared<AttrMap>()}},
                                   {"_p", AttrPlaceholder{"T u"}},
                                   {"_with:colon", "x"},
                                   {"_floats", std::vector<float>{-0.0f, 1e-45f, 3.4028235e38f}},
                                   {"_least", std::numeric_limits<int64_t>::min()},
                                   {"_bytes", std::string("a\0b\n\"\\", 6)},
                                   {"_ref", DType::kFloat},
                                   {"_shapes", std::vector<PartialTensorShape>{{}, PartialTensorShape({-1, 2})}}});
  BOOST_REQUIRE_MESSAGE(node.ok(), node.status().ToString());
  (*node)->set_requested_device("/job:a b");
  std::mt19937 random(1);
  CheckReadsBack(graph, "the node", &random);
}

// Control flow of TensorFlow 2 is functions; the graph can be written without.
BOOST_AUTO_TEST_CASE(control_flow_that_calls_functions_is_advised_of) {
  for (const char* op : {"StatelessWhile", "While", "StatelessIf", "If"}) {
    proto::GraphDef def;
    def.add_node()->set_name("n");
    def.mutable_node(0)->set_op(op);
    Graph graph;
    const std::string message = ImportGraphDef(def, {.keep_unknown_ops = false}, &graph).status().ToString();
    BOOST_TEST(message.find(StrCat("'", op, "' (node 'n')")) != std::string::npos, message);
    BOOST_TEST(message.find("tf.compat.v1.disable_control_flow_v2()") != std::string::npos, message);
  }
}

// Lines without a type that anything tells are refused with their number, in whatever order.
BOOST_AUTO_TEST_CASE(what_cannot_be_found_out_is_said) {
  const auto message = [](const char* text) { return ParseGraphText(text).status().ToString(); };
  BOOST_TEST(message("a = Identity(b)\nb = Identity(a)\n").find("line 1: op 'Identity' needs attr 'T' (type)") !=
             std::string::npos);
  BOOST_TEST(message("x = Placeholder[dtype=float32]\na = Square(b)\nb = Identity(c)\n")
                 .find("line 3: op 'Identity' needs attr 'T' (type)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(values_are_not_nested_without_end) {
  const auto message = [](const std::string& open) {
    std::string text = "a = NoOp[_x=";
    for (int i = 0; i < 100000; ++i) text += open;
    return ParseGraphText(text).status().ToString();
  };
  BOOST_TEST(message("{").find("values are nested too deep") != std::string::npos);
  BOOST_TEST(message("&f[a=").find("values are nested too deep") != std::string::npos);
}

// Random graphs over ops with every kind of input list.
BOOST_AUTO_TEST_CASE(random_graphs_read_back) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 60; ++round) {
    Graph graph;
    std::vector<NodeOut> floats, ints;
    const auto add = [&](const std::string& op, AttrMap attrs, const std::vector<NodeOut>& in) {
      const auto node = graph.AddNode(StrCat("n", graph.num_nodes(), below(3) == 0 ? "/x.y-z" : ""), op, attrs);
      BOOST_REQUIRE_MESSAGE(node.ok(), node.status().ToString());
      for (size_t i = 0; i < in.size(); ++i) BOOST_REQUIRE(graph.AddEdge(in[i], *node, static_cast<int>(i)).ok());
      if (below(4) == 0) graph.AddControlEdge(graph.node(2 + below(graph.num_node_ids() - 2)), *node);
      if (below(5) == 0) (*node)->set_requested_device("/job:w/device:CPU:1");
      for (const Edge* e : (*node)->in_edges()) {
        if (e->src == *node) {
          graph.RemoveEdge(const_cast<Edge*>(e));
          break;
        }
      }
      return *node;
    };
    floats.push_back({add("Const", {{"dtype", DType::kFloat}, {"value", Tensor::Scalar(0.1f)}}, {}), 0});
    ints.push_back({add("Const", {{"dtype", DType::kInt32}, {"value", Tensor::Vector<int32_t>({1, 2, 3})}}, {}), 0});
    for (int i = 0; i < 40; ++i) {
      const auto f = [&] { return floats[below(static_cast<int>(floats.size()))]; };
      const auto k = [&] { return ints[below(static_cast<int>(ints.size()))]; };
      const int n = 1 + below(3);
      switch (below(7)) {
        case 0:
          floats.push_back({add("Mul", {{"T", DType::kFloat}}, {f(), f()}), 0});
          break;
        case 1: {
          std::vector<NodeOut> in;
          for (int j = 0; j < n; ++j) in.push_back(k());
          for (int j = 0; j < n; ++j) in.push_back(f());
          floats.push_back({add("DynamicStitch", {{"N", n}, {"T", DType::kFloat}}, in), 0});
          break;
        }
        case 2: {
          std::vector<NodeOut> in;
          std::vector<DType> types;
          for (int j = 0; j < n; ++j) {
            in.push_back(below(2) ? f() : k());
            types.push_back(in.back().dtype());
          }
          Node* node = add("IdentityN", {{"T", types}}, in);
          for (int j = 0; j < n; ++j) (types[j] == DType::kFloat ? floats : ints).push_back({node, j});
          break;
        }
        case 3: {
          std::vector<NodeOut> in;
          for (int j = 0; j < n; ++j) in.push_back(f());
          floats.push_back({add("AddN", {{"N", n}, {"T", DType::kFloat}}, in), 0});
          break;
        }
        case 4: {
          const std::vector<NodeOut> in{k(), f()};
          Node* node = add("Split", {{"num_split", n}, {"T", DType::kFloat}}, in);
          for (int j = 0; j < n; ++j) floats.push_back({node, j});
          break;
        }
        case 5:
          ints.push_back({add("Cast", {{"SrcT", DType::kFloat}, {"DstT", DType::kInt32}}, {f()}), 0});
          break;
        default: {
          Node* enter = add("Enter", {{"T", DType::kFloat}, {"frame_name", StrCat("frame", i)}}, {f()});
          const auto merge = graph.AddNode(StrCat("merge", i), "Merge", {{"N", 2}, {"T", DType::kFloat}});
          const auto next = graph.AddNode(StrCat("next", i), "NextIteration", {{"T", DType::kFloat}});
          BOOST_REQUIRE(merge.ok() && next.ok());
          BOOST_REQUIRE(graph.AddEdge({enter, 0}, *merge, 0).ok() && graph.AddEdge({*merge, 0}, *next, 0).ok() &&
                        graph.AddEdge({*next, 0}, *merge, 1).ok());
        }
      }
    }
    CheckReadsBack(graph, StrCat("graph ", round), &random);
  }
}

void CheckFolder(const std::filesystem::path& root, int* count) {
  std::mt19937 random(11);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (entry.is_regular_file() && (extension == ".pbtxt" || extension == ".pb") && entry.file_size() < (1 << 20))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    proto::GraphDef def;
    Graph graph;
    // Other protos, and graphs with ops that are not here, are for other tests.
    if (!ReadGraphDef(path.string(), &def).ok() || def.node_size() == 0 || def.node_size() > 2000) continue;
    if (!ImportGraphDef(def, {}, &graph).ok()) continue;
    CheckReadsBack(graph, path.string(), &random);
    ++*count;
  }
}

BOOST_AUTO_TEST_CASE(recorded_graphs_read_back) {
  int count = 0;
  CheckFolder(TROUPE_SOURCE_DIR "/tests", &count);
  BOOST_TEST(count >= 10);
  const char* shared = std::getenv("TROUPE_SHARED");
  const std::filesystem::path data =
      std::filesystem::path(shared != nullptr ? shared : TROUPE_SOURCE_DIR "/../shared") / "data" / "tf-op-graphs";
  if (!std::filesystem::exists(data)) return;
  count = 0;
  CheckFolder(data, &count);
  BOOST_TEST(count >= 50);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace text_form_test
}  // namespace troupe
