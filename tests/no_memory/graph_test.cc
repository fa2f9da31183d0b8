// Graphs, imports and sessions that are made where memory runs out, at each allocation in turn: all
// of it or nothing, and the next attempt works.
#include <cstdlib>
#include <functional>

#include "actors/session/add_graph.h"
#include "graph/core/guarded.h"
#include "tests/cast/asked.h"
#include "tests/cast/deaths.h"
#include "tests/no_memory/each_allocation.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/text.h"

namespace troupe {
namespace graph_test {

using testing::AtEachAllocation;
using testing::Failing;
using testing::Throws;

BOOST_AUTO_TEST_SUITE(graphs)

const std::string kLong = "a_name_that_takes_memory_of_its_own_";
const std::string kDevice = "/job:a_job_with_a_long_name/replica:0/task:0/device:CPU:";

// All that can be seen of a graph.
std::string All(const Graph& g) {
  std::string s = StrCat(g.num_node_ids(), " ids, ", g.num_nodes(), " nodes, ", g.num_edges(), " edges, versions ",
                         g.version(), " ", g.producer, " ", g.min_consumer, " library ", g.library() != nullptr, "\n");
  for (int id = 0; id < g.num_node_ids(); ++id) {
    const Node* n = g.node(id);
    if (n == nullptr) continue;
    BOOST_TEST(g.Find(n->name()) == n);
    BOOST_TEST((n->graph() == &g && n->id() == id));
    StrAppend(&s, id, " ", n->name(), " ", n->op().name, " '", n->requested_device(), "' '", n->assigned_device(), "' ",
              n->num_outputs(), ":");
    for (const DType t : n->output_types()) StrAppend(&s, " ", Name(t));
    for (const auto& [name, value] : n->attrs()) StrAppend(&s, " ", name, "=", value.DebugString());
    for (int i = 0; i < n->num_inputs(); ++i) StrAppend(&s, " ", n->input(i).ToString());
    for (const Edge* e : n->in_edges()) StrAppend(&s, " <", e->src->name(), ":", e->src_output);
    for (const Edge* e : n->out_edges()) StrAppend(&s, " >", e->dst->name(), ":", e->dst_input);
    StrAppend(&s, "\n");
  }
  for (const auto& [name, list] : g.collections()) StrAppend(&s, name, " {", StrJoin(list, ", "), "}\n");
  return s;
}

BOOST_AUTO_TEST_CASE(an_empty_graph) {
  AtEachAllocation([](long k) { return Throws(k, [] { Graph graph; }); });
}

// Nothing of the test takes memory after the change.
using Change = std::function<void(Graph&)>;

Node* MustFind(Graph& g, const std::string& name) {
  Node* const n = g.Find(kLong + name);
  if (n == nullptr) std::abort();
  return n;
}

std::vector<Change> Changes() {
  std::vector<Change> all;
  // So many that the index of names, the list of nodes and the edges of one node grow.
  for (int i = 0; i < 40; ++i) {
    const std::string name = StrCat(kLong, i);
    all.push_back([=](Graph& g) {
      (void)g
          .AddNode(name, i == 0 ? "Placeholder" : "Neg",
                   i == 0 ? AttrMap{{"dtype", DType::kFloat}} : AttrMap{{"T", DType::kFloat}})
          .value();
    });
    if (i == 0) continue;
    all.push_back([=](Graph& g) { (void)g.AddEdge(MustFind(g, "0"), 0, MustFind(g, StrCat(i)), 0).value(); });
    if (i % 5 == 0)
      all.push_back([=](Graph& g) { MustFind(g, StrCat(i))->set_assigned_device(StrCat(kDevice, i % 3)); });
    if (i % 7 == 0)
      all.push_back([=](Graph& g) { g.AddControlEdge(MustFind(g, StrCat(i - 1)), MustFind(g, StrCat(i))); });
    if (i % 8 == 0) all.push_back([=](Graph& g) { g.RemoveNode(MustFind(g, StrCat(i - 2))); });
    if (i % 9 == 0) {
      all.push_back([=](Graph& g) {
        const Node* const from = MustFind(g, StrCat(i));
        (void)g.CopyNode(*from, StrCat(kLong, "copy", i)).value();
      });
    }
    if (i % 11 == 0) {
      all.push_back([=](Graph& g) {
        if (!g.UpdateEdge({MustFind(g, StrCat(i - 1)), 0}, MustFind(g, StrCat(i)), 0).ok()) std::abort();
      });
    }
    if (i % 6 == 0) {
      all.push_back([=](Graph& g) {
        (void)NodeBuilder(&g, kLong + "0", "Add", true)
            .Input({MustFind(g, "0"), 0})
            .Input({MustFind(g, StrCat(i)), 0})
            .Control(MustFind(g, StrCat(i)))
            .Device(kDevice)
            .Build()
            .value();
      });
    }
    if (i % 10 == 0) all.push_back([=](Graph& g) { g.collection(StrCat("a long name of a collection ", i)); });
  }
  return all;
}

BOOST_AUTO_TEST_CASE(a_graph_changes_or_does_not) {
  const std::vector<Change> changes = Changes();
  for (size_t i = 0; i < changes.size(); ++i) {
    bool thrown = true;
    for (long k = 0; thrown; ++k) {
      Graph graph;
      for (size_t j = 0; j < i; ++j) changes[j](graph);
      const std::string before = All(graph);
      thrown = Throws(k, [&] { changes[i](graph); });
      if (thrown) {
        BOOST_TEST(All(graph) == before, "change " << i << ", allocation " << k);
        changes[i](graph);
      }
      Graph whole;
      for (size_t j = 0; j <= i; ++j) changes[j](whole);
      BOOST_TEST(All(graph) == All(whole), "change " << i << ", allocation " << k);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_clone) {
  Graph graph;
  for (const Change& change : Changes()) change(graph);
  AtEachAllocation(
      [&](long k) {
        std::unique_ptr<Graph> copy;
        return Throws(k, [&] { copy = graph.Clone(); });
      },
      3000);
}

// Nodes of unknown ops, some of which the graph has already with fewer outputs.
proto::GraphDef Definition(int from, int to) {
  proto::GraphDef def;
  def.mutable_versions()->set_producer(from == 0 ? 20 : 19);
  def.mutable_versions()->set_min_consumer(from == 0 ? 1 : 2);
  def.mutable_versions()->add_bad_consumers(7 + from);
  def.mutable_library()->add_function()->mutable_signature()->set_name(StrCat(kLong, "function", from));
  for (int i = from; i < to; ++i) {
    proto::NodeDef* n = def.add_node();
    n->set_name(StrCat(kLong, i));
    n->set_device(StrCat(kDevice, i % 2));
    if (i % 10 == 0) {
      n->set_op("AnOpThatDoesNotExistHere");
      continue;
    }
    n->set_op("Neg");
    (*n->mutable_attr())["T"].set_type(proto::DT_FLOAT);
    // Of the node of an unknown op that was there before, another output each.
    const int unknown = i > from + 10 ? from : 0;
    n->add_input(i % 10 < 5 ? StrCat(kLong, unknown, ":", i % 3 + (from == 0 ? 0 : 2)) : StrCat(kLong, i - 1));
    if (i % 4 == 0) n->add_input(StrCat("^", kLong, i - 3));
  }
  return def;
}

BOOST_AUTO_TEST_CASE(an_import_is_whole_or_is_not) {
  const proto::GraphDef first = Definition(0, 20), second = Definition(20, 50);
  ImportOptions options;
  options.return_outputs = {kLong + "21", kLong + "22"};
  options.control_dependencies = {kLong + "3"};
  const auto both = [&](Graph& g) {
    TROUPE_REQUIRE_OK(ImportGraphDef(first, {}, &g).status());
    TROUPE_REQUIRE_OK(ImportGraphDef(second, options, &g).status());
  };
  Graph whole;
  both(whole);
  AtEachAllocation(
      [&](long k) {
        Graph graph;
        TROUPE_REQUIRE_OK(ImportGraphDef(first, {}, &graph).status());
        const std::string before = All(graph);
        if (!Throws(k, [&] { (void)ImportGraphDef(second, options, &graph).value(); })) return false;
        BOOST_TEST(All(graph) == before, "allocation " << k);
        TROUPE_REQUIRE_OK(ImportGraphDef(second, options, &graph).status());
        BOOST_TEST(All(graph) == All(whole), "allocation " << k);
        return true;
      },
      20000);
}

BOOST_AUTO_TEST_CASE(a_graph_is_added_to_a_sessions_or_is_not) {
  Graph first, both;
  TROUPE_REQUIRE_OK(ImportGraphDef(Definition(0, 20), {}, &first).status());
  TROUPE_REQUIRE_OK(ImportGraphDef(Definition(0, 20), {}, &both).status());
  TROUPE_REQUIRE_OK(ImportGraphDef(Definition(20, 50), {}, &both).status());
  Graph whole;
  TROUPE_REQUIRE_OK(AddGraph(first, &whole));
  TROUPE_REQUIRE_OK(AddGraph(both, &whole));
  AtEachAllocation(
      [&](long k) {
        Graph graph;
        TROUPE_REQUIRE_OK(AddGraph(first, &graph));
        const std::string before = All(graph);
        absl::Status s;
        long failed = 0;
        {
          const Failing no_memory(k, 1);
          s = Guarded("Extend", [&] { return AddGraph(both, &graph); });
          failed = Failing::failed();
        }
        BOOST_TEST(s.ok() == (failed == 0));
        if (failed == 0) return false;
        BOOST_TEST(absl::IsResourceExhausted(s), "allocation " << k << ": " << s);
        BOOST_TEST(All(graph) == before, "allocation " << k);
        TROUPE_REQUIRE_OK(AddGraph(both, &graph));
        BOOST_TEST(All(graph) == All(whole), "allocation " << k);
        return true;
      },
      20000);
}

BOOST_AUTO_TEST_CASE(a_session_is_created_or_is_not) {
  SessionOptions options;
  options.runtime = Runtime::Start({.threads = 1}).value();
  const Scope root = Scope::NewRootScope();
  const Output one = Const(root.WithOpName("one"), 1.0f);
  const auto works = [&](Session* session) {
    TROUPE_REQUIRE_OK(session->Extend(*root.graph()));
    std::vector<Tensor> out;
    TROUPE_REQUIRE_OK(session->Run({}, {one.name()}, {}, &out));
    BOOST_TEST(out[0].scalar<float>() == 1.0f);
  };
  works(Session::Create(options).value().get());
  AtEachAllocation(
      [&](long k) {
        std::unique_ptr<Session> session;
        long failed = 0;
        {
          const Failing no_memory(k, 1);
          try {
            session = Session::Create(options).value();
          } catch (const std::bad_alloc&) {
          }
          failed = Failing::failed();
        }
        BOOST_TEST((session != nullptr || failed > 0));
        if (session == nullptr) session = Session::Create(options).value();
        works(session.get());
        return failed > 0;
      },
      1000);
  // No session that could not be made keeps its runtime.
  const std::weak_ptr<Runtime> runtime = options.runtime;
  options.runtime.reset();
  BOOST_TEST(Soon([&] { return runtime.expired(); }));
}

// The session's actor prunes, rewrites, places and cuts on the thread whose allocations fail.
BOOST_AUTO_TEST_CASE(a_compile_is_answered) {
  AtEachAllocation(
      [](long k) {
        Asked p;
        const Output grad =
            ops::Mul(p.root.WithOpName("product"), ops::Neg(p.root, p.twice), ops::Neg(p.root, p.twice));
        (void)grad;
        p.Extend();
        p.AskCompile({"x"}, {"product"});
        long failed = 0;
        {
          const Failing no_memory(k, 1);
          p.stage.scheduler().run_once();
          failed = Failing::failed();
        }
        for (int i = 0; i < 20; ++i) {
          p.stage.Play();
          p.stage.Advance(std::chrono::milliseconds(5));
        }
        // ABORTED: the session's actor died of it, and was restarted.
        BOOST_TEST(
            (p.said == "compile OK; " || p.said == "compile RESOURCE_EXHAUSTED; " || p.said == "compile ABORTED; "),
            "allocation " << k << ": " << p.said);
        p.said.clear();
        p.AskCompile({"x"}, {"product"});
        p.stage.Play();
        BOOST_TEST(p.said == "compile OK; ", "after allocation " << k);
        return failed > 0;
      },
      20000, 300);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace graph_test
}  // namespace troupe
