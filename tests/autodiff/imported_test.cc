// Loops and conditionals that TensorFlow made (data/*.pbtxt, written by data/record.py), against
// the gradients that TensorFlow gave for them.
#include <fstream>
#include <sstream>

#include "tests/autodiff/numeric.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe::testing {
namespace {

const std::string kData = TROUPE_SOURCE_DIR "/tests/autodiff/data/";

// "{1.0,2.5}" at the front of `text`, which is shortened.
std::vector<float> TakeNumbers(std::string_view* text) {
  std::vector<float> v;
  const size_t end = text->find('}');
  BOOST_REQUIRE(text->starts_with("{") && end != std::string_view::npos);
  for (const std::string& n : StrSplit(text->substr(1, end - 1), ',')) v.push_back(std::stof(n));
  text->remove_prefix(end + 1);
  return v;
}

struct ImportedCase {
  std::string line, name;
  std::vector<float> y;
  Feeds feeds;
  std::vector<std::string> xs;
  std::vector<std::vector<float>> grads;
};

// "name y={..} x=2x1{..}:{..} p=true": cases.txt.
ImportedCase ParseCase(const std::string& line) {
  ImportedCase c;
  c.line = line;
  const std::vector<std::string> parts = StrSplit(line, ' ');
  c.name = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string_view text = parts[i];
    const std::string key(text.substr(0, text.find('=')));
    text.remove_prefix(key.size() + 1);
    if (key == "y") {
      c.y = TakeNumbers(&text);
    } else if (text == "true" || text == "false") {
      c.feeds.emplace_back(key, Tensor::Scalar(text == "true"));
    } else {
      TensorShape shape;
      const std::string dims(text.substr(0, text.find('{')));
      text.remove_prefix(dims.size());
      if (dims != "scalar") {
        for (const std::string& d : StrSplit(dims, 'x')) shape.AddDim(std::stoll(d));
      }
      c.feeds.emplace_back(key, Tensor::Of<float>(absl::MakeConstSpan(TakeNumbers(&text)), shape));
      if (text.starts_with(":")) {
        text.remove_prefix(1);
        c.xs.push_back(key);
        c.grads.push_back(TakeNumbers(&text));
      }
    }
  }
  return c;
}

void CheckNear(const Tensor& got, const std::vector<float>& want, const std::string& what) {
  BOOST_REQUIRE_MESSAGE(got.num_elements() == static_cast<int64_t>(want.size()), what << ": " << got.TypeAndShape());
  for (size_t i = 0; i < want.size(); ++i) {
    const float g = got.data<float>()[i];
    BOOST_CHECK_MESSAGE(std::abs(g - want[i]) <= 1e-5f + 1e-4f * std::abs(want[i]),
                        what << "[" << i << "]: " << g << ", not " << want[i]);
  }
}

void RunCases(const SessionOptions& session_options) {
  std::ifstream file(kData + "cases.txt");
  BOOST_REQUIRE(file.good());
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const ImportedCase c = ParseCase(line);
    proto::GraphDef def;
    BOOST_REQUIRE(ReadGraphDef(kData + c.name + ".pbtxt", &def).ok());
    Graph graph;
    const auto imported = ImportGraphDef(def, {}, &graph);
    BOOST_REQUIRE_MESSAGE(imported.ok(), imported.status().ToString());
    std::vector<NodeOut> xs, grads;
    Names fetches = {"y"};
    for (const std::string& x : c.xs) xs.push_back({graph.Find(x), 0});
    GradientOptions gradient_options;
    gradient_options.unconnected = Unconnected::kZeros;  // a condition's limit, say, has no gradient
    absl::Status s = AddGradients(&graph, {{graph.Find("y"), 0}}, xs, {}, gradient_options, &grads);
    BOOST_REQUIRE_MESSAGE(s.ok(), c.name << ": " << s.ToString());
    for (NodeOut g : grads) fetches.push_back(g.ToString());

    auto session = Session::Create(session_options);
    BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
    s = (*session)->Extend(graph);
    BOOST_REQUIRE_MESSAGE(s.ok(), c.name << ": " << s.ToString());
    RunOptions options;
    options.timeout_ms = 20000;
    // Again and again: iterations of several steps must not meet on one stack.
    for (int run = 0; run < 3; ++run) {
      std::vector<Tensor> out;
      s = (*session)->Run(options, c.feeds, fetches, {}, &out, nullptr);
      BOOST_REQUIRE_MESSAGE(s.ok(), c.line << ": " << s.ToString());
      CheckNear(out[0], c.y, c.line + ": y");
      for (size_t i = 0; i < c.xs.size(); ++i) CheckNear(out[i + 1], c.grads[i], c.line + ": d/d" + c.xs[i]);
    }
  }
  BOOST_TEST(count >= 20);
}

BOOST_AUTO_TEST_CASE(gradients_equal_tensorflows) { RunCases({}); }

BOOST_AUTO_TEST_CASE(gradients_equal_tensorflows_when_every_token_is_a_message) {
  SessionOptions options;
  options.token_messages = true;
  RunCases(options);
}

// TensorFlow's own gradients, differentiated again, twice: against finite differences.
BOOST_AUTO_TEST_CASE(gradients_of_tensorflows_gradients) {
  for (const char* name :
       {"array_of_rows", "array_read_in_a_loop", "array_written_in_a_loop", "array_with_elements_that_nothing_reads",
        "array_in_each_iteration_of_a_loop", "map_of_rows", "branch_by_the_counter", "branches_that_differ",
        "branch_by_a_constant_in_nested_loops", "loop_in_a_branch_in_a_loop"}) {
    BOOST_TEST_CONTEXT(name) {
      proto::GraphDef def;
      BOOST_REQUIRE(ReadGraphDef(StrCat(kData, "again_", name, ".pbtxt"), &def).ok());
      // Under a name of its own, so that what TensorFlow called "gradients" is called otherwise.
      for (const char* prefix : {"", "m"}) {
        Graph graph;
        ImportOptions options;
        options.prefix = prefix;
        const auto imported = ImportGraphDef(def, options, &graph);
        BOOST_REQUIRE_MESSAGE(imported.ok(), imported.status().ToString());
        const std::string in = *prefix == 0 ? "" : StrCat(prefix, "/");
        const NodeOut x{graph.Find(in + "x"), 0};
        std::vector<NodeOut> of{{graph.Find(in + "y"), 0}, {graph.Find(in + "g"), 0}};
        for (int order = 2; order <= 3; ++order) {
          std::vector<NodeOut> grads;
          const absl::Status s = AddGradients(&graph, {of.back()}, {x}, {}, {}, &grads);
          BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
          of.push_back(grads[0]);
        }
        Names fetches;
        for (NodeOut v : of) fetches.push_back(v.ToString());
        constexpr double kAt = 0.7, kStep = 1e-5;
        std::vector<std::vector<Tensor>> out;
        for (const double at : {kAt - kStep, kAt, kAt + kStep})
          out.push_back(RunGraph(graph, {{in + "x", Tensor::Scalar(at)}}, fetches));
        for (size_t i = 1; i < of.size(); ++i) {
          const double got = out[1][i].scalar<double>();
          const double want = (out[2][i - 1].scalar<double>() - out[0][i - 1].scalar<double>()) / (2 * kStep);
          BOOST_CHECK_MESSAGE(std::abs(got - want) <= 1e-5 * std::max(1.0, std::abs(want)),
                              "the derivative of order " << i << " is " << got << ", not " << want);
        }
      }
    }
  }
}

}  // namespace
}  // namespace troupe::testing
