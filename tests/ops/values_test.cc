// Every case of cases/values gives what TensorFlow computed for it: by its kernel alone, with one
// thread and with three, and in sessions.
#include <boost/test/unit_test.hpp>

#include "tests/cases/each_op.h"
#include "tests/cases/same_value.h"
#include "tests/ops/case_node.h"
#include "troupe/evaluate.h"
#include "troupe/session.h"

namespace troupe::test {
namespace values_test {

void CheckKernels(const std::string& op, const std::vector<Case>& cases) {
  Tally tally("kernels", op);
  for (const Case& c : cases) {
    std::string wrong;
    for (const int threads : {1, 3}) {
      EvaluateOptions options;
      options.threads = threads;
      const auto got = EvaluateOp(c.op, c.inputs, c.attrs, c.list_sizes, options);
      if (wrong.empty()) wrong = got.ok() ? WrongOutputs(c, *got) : got.status().ToString();
    }
    tally.Add(c, wrong);
  }
}

// The node of a case, its inputs placeholders that are fed.
Node* AddCase(const Case& c, const std::string& name, Graph* graph, Feeds* feeds) {
  const auto node = AddCaseNode(c, name, graph);
  BOOST_REQUIRE_MESSAGE(node.ok(), node.status().ToString());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    auto fed = graph->AddNode(StrCat(name, "/in", i), "Placeholder", {{"dtype", c.inputs[i].dtype()}});
    BOOST_REQUIRE(fed.ok());
    BOOST_REQUIRE(graph->AddEdge(*fed, 0, *node, static_cast<int>(i)).ok());
    feeds->emplace_back((*fed)->name() + ":0", c.inputs[i]);
  }
  return *node;
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
    const absl::Span<const Case> some = absl::MakeSpan(cases).subspan(begin, kCasesInAGraph);
    Graph graph;
    Feeds feeds;
    Names fetches;
    std::vector<size_t> outputs;
    for (size_t i = 0; i < some.size(); ++i) {
      const Node* node = AddCase(some[i], StrCat("case", i), &graph, &feeds);
      for (int o = 0; o < node->num_outputs(); ++o) fetches.push_back(StrCat(node->name(), ":", o));
      outputs.push_back(static_cast<size_t>(node->num_outputs()));
    }
    SessionOptions options;
    options.runtime = *runtime;
    options.token_messages = token_messages;
    auto session = Session::Create(options);
    BOOST_REQUIRE(session.ok());
    std::vector<Tensor> got;
    absl::Status s = (*session)->Extend(graph);
    if (s.ok()) s = (*session)->Run(feeds, fetches, {}, &got);
    size_t at = 0;
    for (size_t i = 0; i < some.size(); ++i) {
      tally.Add(some[i], s.ok() ? WrongOutputs(some[i], absl::MakeSpan(got).subspan(at, outputs[i])) : s.ToString());
      at += outputs[i];
    }
  }
}

void CheckSessions(const std::string& op, const std::vector<Case>& cases) {
  RunInSessions("sessions", op, cases, false);
}
void CheckTokenMessages(const std::string& op, const std::vector<Case>& cases) {
  RunInSessions("sessions with a message a token", op, cases, true);
}

const EachOp kKernels("kernels", {"values"}, CheckKernels, __FILE__, __LINE__);
const EachOp kSessions("sessions", {"values"}, CheckSessions, __FILE__, __LINE__);
const EachOp kTokenMessages("token_messages", {"values"}, CheckTokenMessages, __FILE__, __LINE__);

// So that no file is forgotten. There may be more: a new case needs no change here.
BOOST_AUTO_TEST_CASE(every_recording_is_there) {
  const std::pair<const char*, size_t> kCounts[] = {{"values", 11062 + 692},
                                                    {"variables", 1625 + 174 + 280},
                                                    {"gradients", 61},
                                                    {"errors", 145},
                                                    {"draws", 77},
                                                    {"streams", 290},
                                                    {"imported/gradients.txt", 28},
                                                    {"training/first_steps.txt", 8},
                                                    {"training/optimizers.txt", 17},
                                                    {"training/pieces.txt", 21}};
  for (const auto& [what, count] : kCounts) BOOST_TEST(ReadLines(what).size() >= count, what);
}

}  // namespace values_test
}  // namespace troupe::test
