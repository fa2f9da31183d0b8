// Every case of state_cases.txt.gz leaves the variable as TensorFlow does: set it, run the op, read
// it, each in a step of its own.
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "tests/ops/recorded.h"
#include "troupe/session.h"

namespace troupe::test {
namespace {

// A node whose type attrs are those of its inputs.
Node* Add(Graph* graph, const std::string& name, const std::string& op, AttrMap attrs, const std::vector<Node*>& inputs,
          const std::vector<DType>& types) {
  const OpDef* def = OpRegistry::Global().Find(op);
  BOOST_REQUIRE_MESSAGE(def != nullptr, "no op " << op);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& attr = def->inputs[i].type_attr;
    if (!attr.empty() && !attrs.Has(attr)) attrs.Set(attr, types[i]);
  }
  auto node = graph->AddNode(name, op, std::move(attrs));
  BOOST_REQUIRE_MESSAGE(node.ok(), node.status().ToString());
  for (size_t i = 0; i < inputs.size(); ++i)
    BOOST_REQUIRE(graph->AddEdge(inputs[i], 0, *node, static_cast<int>(i)).ok());
  return *node;
}

struct Names3 {
  std::string init, run, read;
  bool fetch_run = false;
};

Names3 AddCase(const Case& c, Graph* graph, Feeds* feeds) {
  const std::string name = StrCat("line", c.line);
  const bool by_ref = OpRegistry::Global().Find(c.op)->inputs[0].is_ref;
  const DType t = c.inputs[0].dtype();
  const AttrMap variable = {{"dtype", t}, {"shape", PartialTensorShape(c.inputs[0].shape())}};
  std::vector<Node*> inputs;
  std::vector<DType> types;
  Node* start = nullptr;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    Node* fed = Add(graph, StrCat(name, "/in", i), "Placeholder", {{"dtype", c.inputs[i].dtype()}}, {}, {});
    feeds->emplace_back(fed->name() + ":0", c.inputs[i]);
    if (i == 0) {
      start = fed;
      fed = Add(graph, name + "/variable", by_ref ? "VariableV2" : "VarHandleOp", variable, {}, {});
    }
    inputs.push_back(fed);
    types.push_back(i == 0 && !by_ref ? DType::kResource : c.inputs[i].dtype());
  }
  Node* v = inputs[0];
  if (by_ref) {
    Add(graph, name + "/init", "Assign", {}, {v, start}, {t, t});
    Add(graph, name + "/read", "Identity", {}, {v}, {t});
  } else {
    Add(graph, name + "/init", "AssignVariableOp", {}, {v, start}, {DType::kResource, t});
    Add(graph, name + "/read", "ReadVariableOp", {{"dtype", t}}, {v}, {DType::kResource});
  }
  Add(graph, name, c.op, c.attrs, inputs, types);
  return {name + "/init", name, name + "/read:0", c.outputs.size() > 1};
}

void RunInSessions(bool token_messages, bool print) {
  constexpr size_t kCasesInAGraph = 64;
  const std::vector<Case> cases = ReadCases("state_cases.txt.gz");
  RuntimeOptions threads;
  threads.threads = 2;
  auto runtime = Runtime::Start(threads);
  BOOST_REQUIRE(runtime.ok());
  std::set<std::string> ops;
  int wrong = 0;
  for (size_t begin = 0; begin < cases.size(); begin += kCasesInAGraph) {
    const absl::Span<const Case> some = absl::MakeSpan(cases).subspan(begin, kCasesInAGraph);
    Graph graph;
    Feeds feeds;
    Names inits, runs, kept, reads;
    for (const Case& c : some) {
      ops.insert(c.op);
      const Names3 names = AddCase(c, &graph, &feeds);
      inits.push_back(names.init);
      runs.push_back(names.run);
      if (names.fetch_run) kept.push_back(names.run + ":0");
      reads.push_back(names.read);
    }
    SessionOptions options;
    options.runtime = *runtime;
    options.token_messages = token_messages;
    auto session = Session::Create(options);
    BOOST_REQUIRE(session.ok());
    std::vector<Tensor> none, outputs, after;
    absl::Status s = (*session)->Extend(graph);
    if (s.ok()) s = (*session)->Run(feeds, {}, inits, &none);
    if (s.ok()) s = (*session)->Run(feeds, kept, runs, &outputs);
    if (s.ok()) s = (*session)->Run(feeds, reads, {}, &after);
    BOOST_CHECK_MESSAGE(s.ok(), s.ToString());
    if (!s.ok()) continue;
    size_t at = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      const Case& c = some[i];
      std::string what = WrongOutput(c.op, after[i], c.outputs[0]);
      if (c.outputs.size() > 1) {
        const std::string more = WrongOutput(c.op, outputs[at++], c.outputs[1]);
        if (what.empty()) what = more;
      }
      wrong += !what.empty();
      BOOST_CHECK_MESSAGE(what.empty(), "line " << c.line << ": " << c.text.substr(0, 300) << "\n  " << what);
    }
    BOOST_CHECK((*session)->Reset({""}).ok());
  }
  if (print) std::printf("%zu recorded cases of variables, of %zu ops, %d wrong\n", cases.size(), ops.size(), wrong);
  BOOST_CHECK_GT(cases.size(), 500u);
}

BOOST_AUTO_TEST_CASE(variables_change_as_in_tensorflow) { RunInSessions(false, true); }
BOOST_AUTO_TEST_CASE(variables_change_as_in_tensorflow_with_a_message_a_token) { RunInSessions(true, false); }

}  // namespace
}  // namespace troupe::test
