// Loops and conditionals that TensorFlow made (cases/imported), against the gradients that
// TensorFlow gave for them.
#include "tests/autodiff/numeric.h"
#include "tests/cases/case_file.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe::testing {
namespace imported_test {

const std::string kData = TROUPE_SOURCE_DIR "/tests/cases/imported/";

void CheckNear(const Tensor& got, const Tensor& want, const std::string& what) {
  BOOST_REQUIRE_MESSAGE(got.SameShape(want), what << ": " << got.TypeAndShape());
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const float g = got.data<float>()[i], w = want.data<float>()[i];
    BOOST_CHECK_MESSAGE(std::abs(g - w) <= 1e-5f + 1e-4f * std::abs(w),
                        what << "[" << i << "]: " << g << ", not " << w);
  }
}

void RunCases(const SessionOptions& session_options) {
  const std::vector<test::Case> cases = test::ReadCases("imported");
  for (const test::Case& c : cases) {
    proto::GraphDef def;
    BOOST_REQUIRE(ReadGraphDef(kData + c.op + ".pbtxt", &def).ok());
    Graph graph;
    const auto imported = ImportGraphDef(def, {}, &graph);
    BOOST_REQUIRE_MESSAGE(imported.ok(), imported.status().ToString());
    const auto names = GetAttr<std::vector<std::string>>(c.attrs, "feeds").value();
    BOOST_REQUIRE_EQUAL(names.size(), c.inputs.size());
    Feeds feeds;
    std::vector<NodeOut> xs, grads;
    std::vector<Tensor> want = {c.outputs[0]};
    Names fetches = {"y"};
    for (size_t i = 0; i < names.size(); ++i) {
      feeds.emplace_back(names[i], c.inputs[i]);
      if (!c.grads[i].valid()) continue;
      xs.push_back({graph.Find(names[i]), 0});
      want.push_back(c.grads[i]);
    }
    GradientOptions gradient_options;
    gradient_options.unconnected = Unconnected::kZeros;  // a condition's limit, say, has no gradient
    absl::Status s = AddGradients(&graph, {{graph.Find("y"), 0}}, xs, {}, gradient_options, &grads);
    BOOST_REQUIRE_MESSAGE(s.ok(), c.where << ": " << s.ToString());
    for (NodeOut g : grads) fetches.push_back(g.ToString());

    auto session = Session::Create(session_options);
    BOOST_REQUIRE_MESSAGE(session.ok(), session.status().ToString());
    s = (*session)->Extend(graph);
    BOOST_REQUIRE_MESSAGE(s.ok(), c.where << ": " << s.ToString());
    RunOptions options;
    options.timeout_ms = 20000;
    // Again and again: iterations of several steps must not meet on one stack.
    for (int run = 0; run < 3; ++run) {
      std::vector<Tensor> out;
      s = (*session)->Run(options, feeds, fetches, {}, &out, nullptr);
      BOOST_REQUIRE_MESSAGE(s.ok(), c.where << ": " << s.ToString());
      for (size_t i = 0; i < want.size(); ++i) CheckNear(out[i], want[i], StrCat(c.where, ": ", fetches[i]));
    }
  }
  BOOST_CHECK_EQUAL(cases.size(), 28u);
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

}  // namespace imported_test
}  // namespace troupe::testing
