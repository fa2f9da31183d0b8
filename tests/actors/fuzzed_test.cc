// Graphs that fuzzing found to crash or to hang a session, and what they must come to.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <google/protobuf/text_format.h>

#include "actors/graphs.h"
#include "troupe/kernels/evaluate.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace {

std::string Attr(const std::string& name, const std::string& value) { return "attr { key: '" + name + "' value { " + value + " } } "; }

std::string Recv(const std::string& name) {
  return "node { name: '" + name + "' op: '_HostRecv' " + Attr("tensor_type", "type: DT_DOUBLE") + Attr("tensor_name", "s: 's'") +
         Attr("send_device", "s: 's'") + Attr("send_device_incarnation", "i: 3") + Attr("recv_device", "s: 's'") + "} ";
}

struct Case {
  std::string graph;
  Names fetches;
  std::string message;  // part of it
};

std::vector<Case> Cases() {
  return {
      // The second Recv of a key took the place of the first, which then waited for ever, past deadline and cancellation.
      {Recv("a") + Recv("b"), {"a", "b"}, "another node of the part receives"},
      // Arguments and results that are not the step's own were read and written where nothing is.
      {"node { name: 'a' op: '_Arg' " + Attr("T", "type: DT_DOUBLE") + Attr("index", "i: 0") + "}", {"a"}, "node 'a' (_Arg): it stands for an argument"},
      {"node { name: 'c' op: 'Const' " + Attr("dtype", "type: DT_INT32") + Attr("value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 }") +
           "} node { name: 'r' op: '_Retval' input: 'c' " + Attr("T", "type: DT_INT32") + Attr("index", "i: 1000000") +
           "} node { name: 'n' op: 'Identity' input: 'c' input: '^r' " + Attr("T", "type: DT_INT32") + "}",
       {"n"}, "node 'r' (_Retval): it stands for an argument or a result"},
  };
}

BOOST_AUTO_TEST_CASE(GraphsFoundByFuzzingFail) {
  for (const Case& c : Cases()) {
    proto::GraphDef def;
    BOOST_REQUIRE(google::protobuf::TextFormat::ParseFromString(c.graph, &def));
    SessionOptions options;
    options.operation_timeout_ms = 20000;
    auto session = Session::Create(options);
    TROUPE_REQUIRE_OK(session.status());
    absl::Status s = (*session)->Extend(def);
    std::vector<Tensor> out;
    if (s.ok()) s = (*session)->Run({}, c.fetches, {}, &out);
    BOOST_TEST(s.message().find(c.message) != std::string::npos, "'" << s << "' does not say '" << c.message << "'");
  }
}

// A hash table refuses keys that do not equal themselves.
BOOST_AUTO_TEST_CASE(ListDiffKeepsNumbersThatAreNone) {
  const float nan = std::nanf("");
  auto out = EvaluateOp("ListDiff", {Tensor::Vector({nan, 1.0f, 2.0f, nan}), Tensor::Vector({nan, 2.0f, nan})});
  BOOST_REQUIRE_MESSAGE(out.ok(), out.status());
  BOOST_REQUIRE_EQUAL((*out)[0].num_elements(), 3);
  BOOST_TEST((*out)[0].flat<float>()[1] == 1.0f);
  BOOST_TEST((*out)[1].flat<int32_t>()[2] == 3);
}

}  // namespace
}  // namespace troupe
