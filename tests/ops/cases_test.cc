// Every case of cases.txt.gz gives what TensorFlow computed for it: by its kernel alone, and in
// sessions.
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

#include "kernels/evaluate.h"
#include "tests/ops/recorded.h"
#include "troupe/session.h"

namespace troupe::test {
namespace {

const std::vector<Case>& Cases() {
  static const auto* cases = new std::vector<Case>(ReadCases("cases.txt.gz"));
  return *cases;
}

void Check(const Case& c, absl::Span<const Tensor> got, std::map<std::string, int>* wrong) {
  std::string what;
  if (got.size() != c.outputs.size()) what = StrCat(got.size(), " outputs");
  for (size_t i = 0; what.empty() && i < got.size(); ++i) what = WrongOutput(c.op, got[i], c.outputs[i]);
  if (what.empty()) return;
  constexpr int kShown = 3;  // of an op
  if (++(*wrong)[c.op] <= kShown) {
    BOOST_ERROR("line " << c.line << ": " << c.text.substr(0, 300) << "\n  " << what);
  } else {
    BOOST_CHECK_MESSAGE(false, c.op << ": line " << c.line);
  }
}

BOOST_AUTO_TEST_CASE(kernels_compute_as_tensorflow) {
  std::map<std::string, int> wrong;
  std::set<std::string> ops;
  for (const Case& c : Cases()) {
    ops.insert(c.op);
    const auto got = EvaluateOp(c.op, c.inputs, c.attrs, c.list_sizes);
    if (!got.ok()) {
      ++wrong[c.op];
      BOOST_ERROR("line " << c.line << ": " << c.text.substr(0, 300) << "\n  " << got.status().ToString());
      continue;
    }
    Check(c, *got, &wrong);
  }
  int failures = 0;
  for (const auto& [op, n] : wrong) failures += n;
  std::printf("%zu recorded cases of %zu ops, %d wrong\n", Cases().size(), ops.size(), failures);
  for (const auto& [op, n] : wrong) std::printf("  %s: %d\n", op.c_str(), n);
  BOOST_CHECK_GT(Cases().size(), 5000u);
}

// The node of a case, its inputs placeholders that are fed.
Node* AddCase(const Case& c, const std::string& name, Graph* graph, Feeds* feeds) {
  AttrMap attrs = c.attrs;
  const OpDef* op = OpRegistry::Global().Find(c.op);
  size_t at = 0, list = 0;
  for (const ArgDef& arg : op->inputs) {
    const size_t n = arg.IsList() ? static_cast<size_t>(c.list_sizes[list++]) : 1;
    if (!arg.number_attr.empty()) attrs.Set(arg.number_attr, static_cast<int64_t>(n));
    if (!arg.type_attr.empty() && !attrs.Has(arg.type_attr)) attrs.Set(arg.type_attr, c.inputs[at].dtype());
    at += n;
  }
  auto node = graph->AddNode(name, c.op, std::move(attrs));
  BOOST_REQUIRE_MESSAGE(node.ok(), node.status().ToString());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    auto fed = graph->AddNode(StrCat(name, "/in", i), "Placeholder", {{"dtype", c.inputs[i].dtype()}});
    BOOST_REQUIRE(fed.ok());
    BOOST_REQUIRE(graph->AddEdge(*fed, 0, *node, static_cast<int>(i)).ok());
    feeds->emplace_back((*fed)->name() + ":0", c.inputs[i]);
  }
  return *node;
}

void RunInSessions(bool token_messages) {
  constexpr size_t kCasesInAGraph = 64;
  RuntimeOptions threads;
  threads.threads = 2;
  auto runtime = Runtime::Start(threads);
  BOOST_REQUIRE(runtime.ok());
  std::map<std::string, int> wrong;
  for (size_t begin = 0; begin < Cases().size(); begin += kCasesInAGraph) {
    const absl::Span<const Case> some = absl::MakeSpan(Cases()).subspan(begin, kCasesInAGraph);
    Graph graph;
    Feeds feeds;
    Names fetches;
    for (size_t i = 0; i < some.size(); ++i) {
      const Node* node = AddCase(some[i], StrCat("line", some[i].line), &graph, &feeds);
      for (int o = 0; o < node->num_outputs(); ++o) fetches.push_back(StrCat(node->name(), ":", o));
    }
    SessionOptions options;
    options.runtime = *runtime;
    options.token_messages = token_messages;
    auto session = Session::Create(options);
    BOOST_REQUIRE(session.ok());
    std::vector<Tensor> got;
    absl::Status s = (*session)->Extend(graph);
    if (s.ok()) s = (*session)->Run(feeds, fetches, {}, &got);
    BOOST_CHECK_MESSAGE(s.ok(), s.ToString());
    if (!s.ok()) continue;
    size_t at = 0;
    for (const Case& c : some) {
      Check(c, absl::MakeSpan(got).subspan(at, c.outputs.size()), &wrong);
      at += c.outputs.size();
    }
  }
}

BOOST_AUTO_TEST_CASE(sessions_compute_as_tensorflow) { RunInSessions(false); }
BOOST_AUTO_TEST_CASE(sessions_with_a_message_a_token_compute_as_tensorflow) { RunInSessions(true); }

}  // namespace
}  // namespace troupe::test
