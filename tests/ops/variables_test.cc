// Every case of cases/variables leaves its variables as TensorFlow does: set them, run the op, read
// them, each in steps of their own.
#include <boost/test/unit_test.hpp>

#include "tests/cases/each_op.h"
#include "tests/cases/same_value.h"
#include "troupe/session.h"

namespace troupe::test {
namespace variables_test {

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

bool IsVariable(const ArgDef& arg) { return arg.is_ref || arg.type == DType::kResource; }

// A case's part of a graph: what sets its variables, its node, and what reads them.
struct Added {
  Names inits, reads;
  std::string node;
};

Added AddCase(const Case& c, const std::string& name, Graph* graph, Feeds* feeds) {
  Added added;
  added.node = name;
  std::vector<Node*> inputs;
  std::vector<DType> types;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const DType t = c.inputs[i].dtype();
    Node* const fed = Add(graph, StrCat(name, "/in", i), "Placeholder", {{"dtype", t}}, {}, {});
    feeds->emplace_back(fed->name() + ":0", c.inputs[i]);
    const ArgDef& arg = OpRegistry::Global().Find(c.op)->inputs[i];
    if (!IsVariable(arg)) {
      inputs.push_back(fed);
      types.push_back(t);
      continue;
    }
    const std::string variable = StrCat(name, "/variable", i);
    const AttrMap attrs = {{"dtype", t}, {"shape", PartialTensorShape(c.inputs[i].shape())}};
    Node* const v = Add(graph, variable, arg.is_ref ? "VariableV2" : "VarHandleOp", attrs, {}, {});
    if (arg.is_ref) {
      Add(graph, variable + "/init", "Assign", {}, {v, fed}, {t, t});
      Add(graph, variable + "/read", "Identity", {}, {v}, {t});
    } else {
      Add(graph, variable + "/init", "AssignVariableOp", {}, {v, fed}, {DType::kResource, t});
      Add(graph, variable + "/read", "ReadVariableOp", {{"dtype", t}}, {v}, {DType::kResource});
    }
    added.inits.push_back(variable + "/init");
    added.reads.push_back(variable + "/read:0");
    inputs.push_back(v);
    types.push_back(arg.is_ref ? t : DType::kResource);
  }
  AttrMap attrs = c.attrs;
  const OpDef* const op = OpRegistry::Global().Find(c.op);
  // A resource says nothing of the type; an optimizer has it from its scalars.
  if (op->FindAttr("T") != nullptr && !attrs.Has("T") && op->inputs[0].type == DType::kResource &&
      added.reads.size() > 1)
    attrs.Set("T", c.inputs[0].dtype());
  Add(graph, name, c.op, attrs, inputs, types);
  return added;
}

std::string RunCases(absl::Span<const Case> cases, bool token_messages, const std::shared_ptr<Runtime>& runtime,
                     Tally* tally) {
  Graph graph;
  Feeds feeds;
  Names inits, runs, kept, reads;
  std::vector<size_t> variables;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Added added = AddCase(cases[i], StrCat("case", i), &graph, &feeds);
    inits.insert(inits.end(), added.inits.begin(), added.inits.end());
    reads.insert(reads.end(), added.reads.begin(), added.reads.end());
    runs.push_back(added.node);
    variables.push_back(added.reads.size());
    if (cases[i].outputs.size() > added.reads.size()) kept.push_back(added.node + ":0");
  }
  SessionOptions options;
  options.runtime = runtime;
  options.token_messages = token_messages;
  auto session = Session::Create(options);
  if (!session.ok()) return session.status().ToString();
  std::vector<Tensor> none, outputs, after;
  absl::Status s = (*session)->Extend(graph);
  if (s.ok()) s = (*session)->Run(feeds, {}, inits, &none);
  for (int run = 0; s.ok() && run < cases[0].runs; ++run) s = (*session)->Run(feeds, kept, runs, &outputs);
  if (s.ok()) s = (*session)->Run(feeds, reads, {}, &after);
  if (!s.ok()) return s.ToString();
  size_t at = 0, at_kept = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<Tensor> got(after.begin() + static_cast<std::ptrdiff_t>(at),
                            after.begin() + static_cast<std::ptrdiff_t>(at + variables[i]));
    at += variables[i];
    if (cases[i].outputs.size() > variables[i]) got.push_back(outputs[at_kept++]);
    tally->Add(cases[i], WrongOutputs(cases[i], got));
  }
  s = (*session)->Reset({""});
  return s.ok() ? "" : s.ToString();
}

void RunInSessions(const char* what, const std::string& op, const std::vector<Case>& cases, bool token_messages) {
  constexpr size_t kCasesInAGraph = 64;
  static const absl::StatusOr<std::shared_ptr<Runtime>> runtime = [] {
    RuntimeOptions threads;
    threads.threads = 2;
    return Runtime::Start(threads);
  }();
  BOOST_REQUIRE(runtime.ok());
  Tally tally(what, op);
  for (size_t begin = 0; begin < cases.size(); begin += kCasesInAGraph) {
    const std::string error =
        RunCases(absl::MakeSpan(cases).subspan(begin, kCasesInAGraph), token_messages, *runtime, &tally);
    BOOST_CHECK_MESSAGE(error.empty(), cases[begin].where << ": " << error);
  }
}

void CheckVariables(const std::string& op, const std::vector<Case>& cases) {
  RunInSessions("variables", op, cases, false);
}
void CheckTokenMessages(const std::string& op, const std::vector<Case>& cases) {
  RunInSessions("variables with a message a token", op, cases, true);
}

const EachOp kVariables("variables", {"variables"}, CheckVariables, __FILE__, __LINE__);
const EachOp kTokenMessages("variables_token_messages", {"variables"}, CheckTokenMessages, __FILE__, __LINE__);

}  // namespace variables_test
}  // namespace troupe::test
