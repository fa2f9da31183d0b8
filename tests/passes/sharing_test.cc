// What copies of a node share, and that a change to one of them is not seen by another.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "graph/passes/prune.h"
#include "tests/passes/graphs.h"
#include "troupe/graph.h"

namespace troupe {
namespace sharing_test {

const char* kGraph = R"(
  x = TestFeed[dtype=float32, shape=[2,?]]
  two = TestSplit(x) @/job:a
  sum = TestAdd(two, two:1)
)";

struct Fixture {
  std::unique_ptr<Graph> graph = MustParse(kGraph);
  std::unique_ptr<Graph> copy = graph->Clone();
  Node& two() { return *graph->Find("two"); }
  Node& twin() { return *copy->Find("two"); }
};

BOOST_FIXTURE_TEST_SUITE(sharing, Fixture)

BOOST_AUTO_TEST_CASE(copies_share_until_one_is_changed) {
  const std::string before = SortedText(*graph);
  for (const Node* n : graph->op_nodes())
    BOOST_TEST((n->properties() == copy->Find(n->name())->properties()), n->name());
  using Change = void (*)(Node&);
  const std::pair<const char*, Change> kChanges[] = {
      {"attr that is there", [](Node& n) { n.SetAttr("T", DType::kInt32); }},
      {"attr that is new", [](Node& n) { n.SetAttr("_mark", 7); }},
      {"requested device", [](Node& n) { n.set_requested_device("/job:b"); }},
      {"location",
       [](Node& n) {
         n.set_location({"here.py", 3});
       }},
      {"assigned device", [](Node& n) { n.set_assigned_device("/job:c"); }},
  };
  for (const auto& [what, change] : kChanges) {
    // Either side may be the one that is changed.
    for (const bool original : {false, true}) {
      const std::unique_ptr<Graph> one = MustParse(kGraph), other = one->Clone();
      Node& changed = *(original ? *one : *other).Find("two");
      const Node& kept = *(original ? *other : *one).Find("two");
      change(changed);
      BOOST_TEST(SortedText(original ? *other : *one) == before, what);
      BOOST_TEST(!kept.location().known(), what);
      BOOST_TEST(kept.assigned_device() == "", what);
      BOOST_TEST(changed.name() == "two");
      BOOST_TEST((original ? *one : *other).Find("two") == &changed, what);
      BOOST_TEST(changed.output_types() == kept.output_types());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_changes_nothing_shares_on) {
  twin().set_requested_device("/job:a");
  twin().set_location(two().location());
  twin().set_assigned_device("/device:CPU:0");
  BOOST_TEST((two().properties() == twin().properties()));
  BOOST_TEST(two().assigned_device() == "");
  twin().SetAttr("_mark", 1);
  BOOST_TEST(!(two().properties() == twin().properties()));
  BOOST_TEST(twin().properties().alone());
  // Who is alone is changed in place.
  const NodeProperties* mine = &*twin().properties();
  twin().SetAttr("_mark", 2);
  BOOST_TEST(&*twin().properties() == mine);
  BOOST_TEST(*twin().Attr<int64_t>("_mark") == 2);
}

BOOST_AUTO_TEST_CASE(a_copy_under_another_name_is_found_under_it) {
  const Node* other = graph->CopyNode(two(), "three").value();
  BOOST_TEST(graph->Find("three") == other);
  BOOST_TEST(graph->Find("two") == &two());
  BOOST_TEST(other->name() == "three");
  BOOST_TEST(two().name() == "two");
  BOOST_TEST(other->requested_device() == "/job:a");
  BOOST_TEST(graph->CopyNode(two(), "two").status().code() == absl::StatusCode::kAlreadyExists);
  BOOST_TEST(graph->CopyNode(two(), "three").status().code() == absl::StatusCode::kAlreadyExists);
  BOOST_TEST(graph->num_node_ids() == 6);
}

BOOST_AUTO_TEST_CASE(properties_outlive_their_graphs) {
  const SharedProperties kept = twin().properties();
  graph.reset();
  copy->RemoveNode(&twin());
  copy.reset();
  BOOST_TEST(kept->name == "two");
  BOOST_TEST(kept->requested_device == "/job:a");
  BOOST_TEST(kept->output_types.size() == 2u);
  BOOST_TEST(kept->attrs.Has("T"));
  BOOST_TEST(kept.alone());
}

BOOST_AUTO_TEST_CASE(a_node_that_is_removed_leaves_its_copies_their_attrs) {
  copy->RemoveNode(&twin());
  BOOST_TEST(two().attrs().Has("T"));
  BOOST_TEST(copy->Find("two") == nullptr);
  BOOST_TEST(copy->AddNode("two", "TestNone", {}).ok());
}

BOOST_AUTO_TEST_CASE(a_node_of_many_edges_keeps_them_all) {
  constexpr int kMany = 40;
  std::vector<Node*> readers;
  for (int i = 0; i < kMany; ++i) {
    readers.push_back(graph->AddNode(StrCat("r", i), "TestNone", {}).value());
    graph->AddControlEdge(&two(), readers.back());
    graph->AddControlEdge(readers.back(), graph->Find("sum"));
  }
  BOOST_TEST(two().out_edges().size() == kMany + 2u);
  BOOST_TEST(graph->Find("sum")->in_edges().size() == kMany + 2u);
  const std::unique_ptr<Graph> again = graph->Clone();
  BOOST_TEST(SortedText(*again) == SortedText(*graph));
  for (int i = 0; i < kMany; i += 2) graph->RemoveNode(readers[static_cast<size_t>(i)]);
  BOOST_TEST(two().out_edges().size() == kMany / 2 + 2u);
  for (const Edge* e : two().out_edges()) BOOST_TEST(e->src == &two());
}

BOOST_AUTO_TEST_CASE(device_names_belong_to_the_graph_they_are_used_in) {
  twin().set_assigned_device("/device:CPU:1");
  Graph third;
  const Node* n = third.CopyNode(twin(), "two").value();
  copy.reset();
  BOOST_TEST(n->assigned_device() == "/device:CPU:1");
  BOOST_TEST(n->device() == "/device:CPU:1");
  // More names than one, each asked for again.
  std::vector<Node*> nodes;
  for (int i = 0; i < 20; ++i) {
    nodes.push_back(third.AddNode(StrCat("n", i), "TestNone", {}).value());
    nodes.back()->set_assigned_device(StrCat("/device:CPU:", i % 3));
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    BOOST_TEST(nodes[i]->assigned_device() == StrCat("/device:CPU:", i % 3));
    BOOST_TEST(&nodes[i]->assigned_device() == &nodes[i % 3]->assigned_device());
  }
  nodes[0]->set_assigned_device("");
  BOOST_TEST(nodes[0]->assigned_device() == "");
}

BOOST_AUTO_TEST_CASE(graphs_that_share_are_pruned_changed_and_dropped_on_different_threads) {
  constexpr int kThreads = 4, kRounds = 300;
  const std::string before = SortedText(*graph);
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int t = 0; t < kThreads; ++t) graphs.push_back(graph->Clone());
  std::vector<std::string> after(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const PrunedGraph pruned =
            PruneForExecution(*graphs[static_cast<size_t>(t)], {{"x"}}, {{"sum"}}, {}, {}).value();
        Node* n = pruned.graph->Find("two");
        n->SetAttr("_round", i);
        if (*n->Attr<int64_t>("_round") != i || pruned.graph->Find("sum")->name() != "sum")
          after[static_cast<size_t>(t)] = "its own change is lost";
      }
      graphs[static_cast<size_t>(t)]->Find("sum")->set_requested_device(StrCat("/job:", t));
    });
  }
  for (std::thread& t : threads) t.join();
  for (int t = 0; t < kThreads; ++t) {
    BOOST_TEST(after[static_cast<size_t>(t)] == "");
    const Graph& g = *graphs[static_cast<size_t>(t)];
    BOOST_TEST(g.Find("sum")->requested_device() == StrCat("/job:", t));
    BOOST_TEST(!g.Find("two")->attrs().Has("_round"));
  }
  BOOST_TEST(SortedText(*graph) == before);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sharing_test
}  // namespace troupe
