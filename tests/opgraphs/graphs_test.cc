// Runs recorded TensorFlow graphs the way `troupe run` does, and compares every fetch.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <map>
#include <set>

#include "tests/opgraphs/recorded_graph.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/proto/saved_model.pb.h"
#include "troupe/session.h"

namespace troupe::test {
namespace graphs_test {

constexpr double kTolerance = 1e-5;

// "a.1" is output 1 of node "a", unless a node has that very name.
std::string TensorName(const Graph& graph, const std::string& recorded, const Node** node, int* port) {
  *port = 0;
  *node = graph.Find(recorded);
  if (*node != nullptr) return recorded + ":0";
  const size_t dot = recorded.rfind('.');
  if (dot == std::string::npos) return recorded;
  *node = graph.Find(recorded.substr(0, dot));
  *port = std::atoi(recorded.c_str() + dot + 1);
  return StrCat(recorded.substr(0, dot), ":", *port);
}

// What is wrong, one line each.
std::vector<std::string> RunGraph(const RecordedGraph& recorded, const proto::GraphDef& def,
                                  const SessionOptions& options) {
  Graph graph;
  if (auto imported = ImportGraphDef(def, {}, &graph); !imported.ok()) return {imported.status().ToString()};
  const Node* node = nullptr;
  int port = 0;
  Feeds feeds;
  Names fetches;
  std::vector<Tensor> want;
  for (const bool fed : {true, false}) {
    for (const RecordedValue& v : fed ? recorded.feeds : recorded.fetches) {
      const std::string name = TensorName(graph, v.name, &node, &port);
      if (node == nullptr || port >= node->num_outputs()) return {StrCat("the graph has no ", name)};
      auto value = v.As(BaseType(node->output_type(port)));
      if (!value.ok()) return {value.status().ToString()};
      if (fed) {
        feeds.emplace_back(name, *std::move(value));
      } else {
        fetches.push_back(name);
        want.push_back(*std::move(value));
      }
    }
  }
  auto session = Session::Create(options);
  if (!session.ok()) return {session.status().ToString()};
  std::vector<Tensor> got;
  absl::Status s = (*session)->Extend(def);
  if (s.ok()) s = (*session)->Run(feeds, fetches, {}, &got);
  if (!s.ok()) return {s.ToString()};
  std::vector<std::string> wrong;
  for (size_t i = 0; i < got.size(); ++i) {
    if (const std::string d = Difference(got[i], want[i], kTolerance); !d.empty())
      wrong.push_back(StrCat(fetches[i], ": ", d));
  }
  return wrong;
}

BOOST_AUTO_TEST_CASE(recorded_graphs_give_the_recorded_values) {
  const std::filesystem::path root = DataFolder("tf-op-graphs");
  if (root.empty()) {
    BOOST_TEST_MESSAGE("skipped: no folder tf-op-graphs in ${TROUPE_SHARED}/data");
    BOOST_CHECK(true);
    return;
  }
  int run = 0, matched = 0;
  std::map<std::string, std::set<std::string>> missing;  // op -> graphs
  std::set<std::string> skipped;
  for (const RecordedGraph& g : ReadRecordedGraphs(root)) {
    proto::GraphDef def;
    const absl::Status read = ReadGraphDef(g.path, &def);
    BOOST_CHECK_MESSAGE(read.ok(), read.ToString());
    if (!read.ok()) continue;
    const std::vector<std::string> unknown = UnknownOps(def, OpRegistry::Global());
    for (const std::string& op : unknown) missing[op].insert(g.name);
    if (!unknown.empty()) {
      skipped.insert(g.name);
      continue;
    }
    ++run;
    bool all = true;
    for (const bool token_messages : {false, true}) {
      SessionOptions options;
      options.runtime_options.threads = 2;
      options.token_messages = token_messages;
      const std::vector<std::string> wrong = RunGraph(g, def, options);
      for (const std::string& w : wrong) BOOST_ERROR(g.name << (token_messages ? " (a message a token): " : ": ") << w);
      all = all && wrong.empty();
    }
    matched += all;
  }
  BOOST_CHECK_GT(run, 0);
  BOOST_CHECK_EQUAL(skipped.size(), 0u);
  std::string lines;
  for (const auto& [op, graphs] : missing) {
    for (const std::string& g : graphs) StrAppend(&lines, "\n  no op ", op, ": ", g);
  }
  std::printf("%d recorded graphs run, %d match, %zu skipped%s\n", run, matched, skipped.size(), lines.c_str());
}

BOOST_AUTO_TEST_CASE(softmax_regression_of_mnist) {
  const std::filesystem::path root = DataFolder("tf-mnist-softmax");
  if (root.empty()) {
    BOOST_TEST_MESSAGE("skipped: no folder tf-mnist-softmax in ${TROUPE_SHARED}/data");
    BOOST_CHECK(true);
    return;
  }
  const RecordedGraph g = ReadRecordedGraph(root, root);
  proto::GraphDef def;
  BOOST_REQUIRE(ReadGraphDef(g.path, &def).ok());
  BOOST_CHECK_EQUAL(StrJoin(RunGraph(g, def, {}), "\n"), "");
}

// The nodes of `def` that `wanted` need when the float tensors `fed` are fed: placeholders stand
// for them.
proto::GraphDef Needed(const proto::GraphDef& def, std::vector<std::string> wanted, const std::set<std::string>& fed) {
  std::map<std::string, const proto::NodeDef*> by_name;
  for (const auto& n : def.node()) by_name[n.name()] = &n;
  std::set<std::string> seen;
  proto::GraphDef out;
  *out.mutable_versions() = def.versions();
  while (!wanted.empty()) {
    std::string name = wanted.back();
    wanted.pop_back();
    if (name[0] == '^') name = name.substr(1);
    name = name.substr(0, name.find(':'));
    if (!seen.insert(name).second || by_name.find(name) == by_name.end()) continue;
    if (fed.contains(name)) {
      proto::NodeDef* placeholder = out.add_node();
      placeholder->set_name(name);
      placeholder->set_op("Placeholder");
      (*placeholder->mutable_attr())["dtype"].set_type(proto::DT_FLOAT);
      continue;
    }
    *out.add_node() = *by_name[name];
    for (const std::string& input : by_name[name]->input()) wanted.push_back(input);
  }
  return out;
}

// A SavedModel of TensorFlow: y = 0.5 x + 2 and y3 = 0.5 x2 + 3, once its variables are
// initialised.
BOOST_AUTO_TEST_CASE(half_plus_two) {
  const std::filesystem::path root = DataFolder("tf-half-plus-two");
  if (root.empty()) {
    BOOST_TEST_MESSAGE("skipped: no folder tf-half-plus-two in ${TROUPE_SHARED}/data");
    BOOST_CHECK(true);
    return;
  }
  proto::SavedModel model;
  std::ifstream in(root / "saved_model.pb", std::ios::binary);
  BOOST_REQUIRE(model.ParseFromIstream(&in));
  const proto::GraphDef def = Needed(model.meta_graphs(0).graph_def(), {"y", "y3", "init"}, {"x", "x2"});
  BOOST_REQUIRE_EQUAL(StrJoin(UnknownOps(def, OpRegistry::Global()), " "), "");
  auto session = Session::Create();
  BOOST_REQUIRE(session.ok());
  BOOST_REQUIRE((*session)->Extend(def).ok());
  const Tensor x = Tensor::Of<float>({0, 1, 2}, TensorShape({3, 1}));
  std::vector<Tensor> out;
  BOOST_CHECK((*session)->Run({{"x:0", x}}, {"y:0"}, {}, &out).code() == absl::StatusCode::kFailedPrecondition);
  BOOST_REQUIRE((*session)->Run({}, {}, {"init"}, &out).ok());
  const absl::Status s = (*session)->Run({{"x:0", x}, {"x2:0", x}}, {"y:0", "y3:0"}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_CHECK_EQUAL(Difference(out[0], Tensor::Of<float>({2, 2.5, 3}, TensorShape({3, 1})), 0), "");
  BOOST_CHECK_EQUAL(Difference(out[1], Tensor::Of<float>({3, 3.5, 4}, TensorShape({3, 1})), 0), "");
}

// The same, restored by its own nodes from the checkpoint that came with it.
BOOST_AUTO_TEST_CASE(half_plus_two_restores_itself) {
  const std::filesystem::path root = DataFolder("tf-half-plus-two");
  if (root.empty()) {
    BOOST_TEST_MESSAGE("skipped: no folder tf-half-plus-two in ${TROUPE_SHARED}/data");
    BOOST_CHECK(true);
    return;
  }
  proto::SavedModel model;
  std::ifstream in(root / "saved_model.pb", std::ios::binary);
  BOOST_REQUIRE(model.ParseFromIstream(&in));
  const proto::GraphDef def = Needed(model.meta_graphs(0).graph_def(), {"y", "y3", "save/restore_all"}, {"x", "x2"});
  auto session = Session::Create();
  BOOST_REQUIRE(session.ok());
  const absl::Status extended = (*session)->Extend(def);
  BOOST_REQUIRE_MESSAGE(extended.ok(), extended.ToString());
  std::vector<Tensor> out;
  const Tensor prefix = Tensor::Scalar((root / "variables/variables").string());
  const absl::Status restored = (*session)->Run({{"save/Const:0", prefix}}, {}, {"save/restore_all"}, &out);
  BOOST_REQUIRE_MESSAGE(restored.ok(), restored.ToString());
  const Tensor x = Tensor::Of<float>({0, 1, 2}, TensorShape({3, 1}));
  const absl::Status s = (*session)->Run({{"x:0", x}, {"x2:0", x}}, {"y:0", "y3:0"}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  BOOST_CHECK_EQUAL(Difference(out[0], Tensor::Of<float>({2, 2.5, 3}, TensorShape({3, 1})), 0), "");
  BOOST_CHECK_EQUAL(Difference(out[1], Tensor::Of<float>({3, 3.5, 4}, TensorShape({3, 1})), 0), "");
}

BOOST_AUTO_TEST_CASE(a_difference_is_noticed) {
  const Tensor two = Tensor::Vector<float>({1, 2});
  BOOST_CHECK_EQUAL(Difference(two, Tensor::Vector<float>({1, 2.00001f}), kTolerance), "");
  BOOST_CHECK_NE(Difference(two, Tensor::Vector<float>({1, 2.0001f}), kTolerance), "");
  BOOST_CHECK_NE(Difference(two, Tensor::Vector<double>({1, 2}), kTolerance), "");
  BOOST_CHECK_NE(Difference(two, Tensor::Of<float>({1, 2}, TensorShape({2, 1})), kTolerance), "");
  BOOST_CHECK_NE(Difference(Tensor::Scalar<int32_t>(1000000), Tensor::Scalar<int32_t>(1000001), kTolerance), "");
}

}  // namespace graphs_test
}  // namespace troupe::test
