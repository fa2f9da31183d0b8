// The flags of troupe run beyond feeds and fetches, and --load.
#include <boost/test/unit_test.hpp>

#include "tests/program/program_test.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/strings.h"
#include "troupe/troupe.h"

namespace troupe {
namespace options_test {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Fixture {
  Folder folder;
  std::string Write(const Scope& scope) const {
    BOOST_REQUIRE_MESSAGE(scope.ok(), scope.status().ToString());
    proto::GraphDef def;
    ExportGraphDef(*scope.graph(), &def);
    return folder.Write("graph.pb", def.SerializeAsString());
  }
};

BOOST_FIXTURE_TEST_SUITE(options, Fixture)

BOOST_AUTO_TEST_CASE(inits_run_in_steps_before_in_their_order) {
  Scope scope = Scope::NewRootScope();
  Output start = ops::Placeholder(scope.WithOpName("start"), DType::kFloat, {.shape = TensorShape()});
  Output v = ops::VariableV2(scope.WithOpName("v"), TensorShape(), DType::kFloat);
  ops::Assign(scope.WithOpName("init"), v, start);
  ops::AssignAdd(scope.WithOpName("add"), v, ops::Const(scope, 2.0f));
  ops::Identity(scope.WithOpName("y"), v);
  const std::string graph = Write(scope);
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", graph});
    const Ended e = RunProgram(arguments);
    return StrCat(e.status, " ", e.out, e.err);
  };
  BOOST_TEST(run({"--feed", "start=5", "--init", "init", "--fetch", "y"}) == "0 y float32 []\n5\n");
  BOOST_TEST(run({"--feed", "start=5", "--init", "init", "--init", "add", "--init", "add", "--fetch", "y"}) ==
             "0 y float32 []\n9\n");
  BOOST_TEST(run({"--feed", "start=5", "--init", "init"}) == "0 ");
  const std::string none = run({"--fetch", "y"});
  BOOST_TEST(Has(none, "1 troupe: FAILED_PRECONDITION"), none);
  const std::string wrong_order = run({"--feed", "start=5", "--init", "add", "--init", "init", "--fetch", "y"});
  BOOST_TEST(Has(wrong_order, "1 troupe: FAILED_PRECONDITION: --init add: "), wrong_order);
  const std::string unknown = run({"--init", "nobody", "--fetch", "y"});
  BOOST_TEST(Has(unknown, "1 troupe: NOT_FOUND: --init nobody: "), unknown);
}

BOOST_AUTO_TEST_CASE(a_step_ends_at_the_timeout) {
  Scope scope = Scope::NewRootScope();
  OutputList r = While(
      scope.WithOpName("endless"), {0}, [](const Scope&, const OutputList& v) { return v[0] < 1; },
      [](const Scope&, const OutputList& v) -> OutputList { return {v[0] * 1}; });
  ops::Identity(scope.WithOpName("y"), r[0]);
  const std::string graph = Write(scope);
  for (const char* what : {"--fetch", "--init"}) {
    const Ended e = RunProgram({"run", graph, what, "y", "--timeout", "50"});
    BOOST_TEST(e.status == 1);
    BOOST_TEST(Has(e.err, "DEADLINE_EXCEEDED"), e.err);
    BOOST_TEST(Has(e.err, "endless"), e.err);
  }
  BOOST_TEST(RunProgram({"run", graph, "--fetch", "y", "--timeout", "-1"}).status == 2);
  BOOST_TEST(RunProgram({"run", graph, "--fetch", "y", "--timeout", "1s"}).status == 2);
}

BOOST_AUTO_TEST_CASE(tensors_stay_below_the_memory_limit) {
  Scope scope = Scope::NewRootScope();
  Output n = ops::Placeholder(scope.WithOpName("n"), DType::kInt32, {.shape = TensorShape({1})});
  ops::Shape(scope.WithOpName("y"), ops::Fill(scope.WithOpName("fill"), n, ops::Const(scope, 1.0f)));
  const std::string graph = Write(scope);
  const std::vector<std::string> run = {"run",  graph,   "--feed",           "n=[1000000]",   "--fetch",
                                        "fill", "--out", folder.Path("out"), "--memory_limit"};
  const auto with = [&](const char* bytes) {
    std::vector<std::string> arguments = run;
    arguments.push_back(bytes);
    return RunProgram(arguments);
  };
  BOOST_TEST(with("8000000").status == 0);
  BOOST_TEST(with("0").status == 0);
  const Ended e = with("3999999");
  BOOST_TEST(e.status == 1);
  BOOST_TEST(Has(e.err, "RESOURCE_EXHAUSTED"), e.err);
  BOOST_TEST(Has(e.err, "fill"), e.err);
  BOOST_TEST(with("-5").status == 2);
}

BOOST_AUTO_TEST_CASE(the_version_is_told) {
  const Ended e = RunProgram({"--version"});
  BOOST_TEST(e.status == 0);
  BOOST_TEST(e.out.starts_with("troupe 0."), e.out);
}

BOOST_AUTO_TEST_CASE(ops_of_a_library_are_there_once_it_is_loaded) {
  const std::string graph =
      folder.Write("p.pbtxt", PlaceholderText("x", "DT_FLOAT") + NodeDefText("y", "PluginTriple", {"x"}));
  BOOST_TEST(RunProgram({"run", graph, "--feed", "x=2", "--fetch", "y"}).status == 3);
  const Ended e = RunProgram({"run", graph, "--feed", "x=2", "--fetch", "y", "--load", TROUPE_PLUGIN});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(e.out == "y float32 []\n6\n");
  const Ended op = RunProgram({"ops", "--load", TROUPE_PLUGIN, "PluginTriple"});
  BOOST_TEST(op.status == 0, op.err);
  BOOST_TEST(Has(op.out, "PluginTriple(x: float32) -> (y: float32)\n    Three times x.\n"), op.out);
  BOOST_TEST(RunProgram({"graph", graph, "--load", TROUPE_PLUGIN}).status == 0);
}

BOOST_AUTO_TEST_CASE(a_library_that_cannot_be_loaded_is_a_failure_one_can_read) {
  const Ended none = RunProgram({"ops", "--load", folder.Path("none.so")});
  BOOST_TEST(none.status == 1);
  BOOST_TEST(none.out == "");
  BOOST_TEST(Has(none.err, StrCat("--load ", folder.Path("none.so"), ": ")), none.err);
  BOOST_TEST(Has(none.err, "No such file"), none.err);
  const Ended text = RunProgram({"ops", "--load", folder.Write("text.so", "no library")});
  BOOST_TEST(text.status == 1);
  BOOST_TEST(Has(text.err, "text.so"), text.err);
  // The same file twice is one library; its ops in two files are a mistake.
  BOOST_TEST(RunProgram({"ops", "--load", TROUPE_PLUGIN, "--load", TROUPE_PLUGIN, "PluginTriple"}).status == 0);
  const Ended twice = RunProgram({"ops", "--load", TROUPE_PLUGIN, "--load", TROUPE_PLUGIN_AGAIN});
  BOOST_TEST(twice.status == 1);
  BOOST_TEST(twice.out == "");
  BOOST_TEST(Has(twice.err, "'PluginTriple'"), twice.err);
  BOOST_TEST(Has(twice.err, "troupe: "), twice.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace options_test
}  // namespace troupe
