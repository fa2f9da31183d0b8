// Every case of cases.txt.gz gives what TensorFlow computed for it: by its kernel alone, and in sessions.
#include <zlib.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <set>

#include "array/case_file.h"
#include "troupe/actors/session.h"
#include "troupe/graph/ir/text.h"
#include "troupe/kernels/evaluate.h"

namespace troupe::test {
namespace {

std::vector<std::string> ReadGzipLines(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  BOOST_REQUIRE_MESSAGE(file != nullptr, "no " << path);
  std::string text;
  char buffer[1 << 16];
  for (int n; (n = gzread(file, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(n));
  gzclose(file);
  return StrSplit(text, '\n');
}

// As ParseCase, with attrs in the form of text graphs.
Case ReadCase(const std::string& line, int number) {
  const size_t bar = line.find(" |");
  Case c = ParseCase(line.substr(0, line.find(' ')) + line.substr(bar), number);
  c.text = line;
  for (const std::string& word : StrSplit(line.substr(0, bar), ' ')) {
    const size_t equals = word.find('=');
    if (word[0] == '<') {
      c.list_sizes.push_back(std::atoi(word.c_str() + 1));
    } else if (equals != std::string::npos) {
      const auto value = ParseAttrText(word.substr(equals + 1));
      BOOST_REQUIRE_MESSAGE(value.ok(), line.substr(0, bar) << ": " << value.status().ToString());
      c.attrs.Set(word.substr(0, equals), *value);
    }
  }
  return c;
}

const std::vector<Case>& Cases() {
  static const auto* cases = [] {
    auto* list = new std::vector<Case>;
    int number = 0;
    for (const std::string& line : ReadGzipLines(std::string(TROUPE_SOURCE_DIR) + "/tests/ops/cases.txt.gz")) {
      ++number;
      if (!line.empty() && line[0] != '#') list->push_back(ReadCase(line, number));
    }
    return list;
  }();
  return *cases;
}

// What the arithmetic of the type may be off by, relative to the larger of the value and 1.
double Tolerance(DType t) {
  switch (t) {
    case DType::kHalf: return 2e-3;
    case DType::kBfloat16: return 1.6e-2;
    case DType::kFloat:
    case DType::kComplex64: return 2e-6;
    default: return 1e-12;
  }
}

bool Near(double a, double b, double scale, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * scale;
}

// "" when the output is as recorded.
std::string Wrong(const std::string& op, const Tensor& got, const Tensor& want) {
  if (!want.valid()) return "";  // not recorded
  if (!got.valid()) return "no value";
  if (got.dtype() != want.dtype() || !got.SameShape(want)) return StrCat(got.DebugString(), " instead of ", want.DebugString());
  if (got.dtype() == DType::kString) return Difference(got, want);
  int64_t first = -1;
  VisitNumeric(got.dtype(), false, [&]<class T>() {
    // TensorFlow sums floats of 16 bits in 16 bits: an element may be off by the rounding of the largest, in long sums several times.
    const bool long_sum = sizeof(T) == 2 && op.find("Backprop") != std::string::npos;
    const double tolerance = Tolerance(kDTypeOf<T>) * (long_sum ? 3 : 1);
    double largest = 0;
    if constexpr (kDTypeOf<T> == DType::kHalf || kDTypeOf<T> == DType::kBfloat16) {
      for (const T v : want.flat<T>()) {
        if (std::isfinite(static_cast<double>(v))) largest = std::max(largest, std::abs(static_cast<double>(v)));
      }
    }
    for (int64_t i = 0; i < got.num_elements() && first < 0; ++i) {
      const T a = got.data<T>()[i], b = want.data<T>()[i];
      bool same;
      if constexpr (kDTypeOf<T> == DType::kComplex64 || kDTypeOf<T> == DType::kComplex128) {
        const double scale = std::max<double>(1, std::abs(b));
        same = Near(a.real(), b.real(), scale, tolerance) && Near(a.imag(), b.imag(), scale, tolerance);
      } else if constexpr (std::is_integral_v<T>) {
        same = a == b;
      } else {
        const double x = static_cast<double>(a), y = static_cast<double>(b);
        same = Near(x, y, std::max({1.0, std::abs(y), largest}), tolerance);
      }
      if (!same) first = i;
    }
    return true;
  });
  return first < 0 ? "" : StrCat("element ", first, ": ", got.DebugString(64), " instead of ", want.DebugString(64));
}

void Check(const Case& c, absl::Span<const Tensor> got, std::map<std::string, int>* wrong) {
  std::string what;
  if (got.size() != c.outputs.size()) what = StrCat(got.size(), " outputs");
  for (size_t i = 0; what.empty() && i < got.size(); ++i) what = Wrong(c.op, got[i], c.outputs[i]);
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
