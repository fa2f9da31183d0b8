// Graphs that fuzzing found to crash or to hang a session, and what they must come to.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <google/protobuf/text_format.h>

#include "tests/actors/graphs.h"
#include "troupe/evaluate.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace fuzzed_test {

std::string Attr(const std::string& name, const std::string& value) {
  return "attr { key: '" + name + "' value { " + value + " } } ";
}

std::string Recv(const std::string& name) {
  return "node { name: '" + name + "' op: '_HostRecv' " + Attr("tensor_type", "type: DT_DOUBLE") +
         Attr("tensor_name", "s: 's'") + Attr("send_device", "s: 's'") + Attr("send_device_incarnation", "i: 3") +
         Attr("recv_device", "s: 's'") + "} ";
}

struct Case {
  std::string graph;
  Names fetches;
  std::string message;  // part of it
};

std::vector<Case> Cases() {
  return {
      // The second Recv of a key took the place of the first, which then waited for ever, past
      // deadline and cancellation.
      {Recv("a") + Recv("b"), {"a", "b"}, "another node of the part receives"},
      // Arguments and results that are not the step's own were read and written where nothing is.
      {"node { name: 'a' op: '_Arg' " + Attr("T", "type: DT_DOUBLE") + Attr("index", "i: 0") + "}",
       {"a"},
       "node 'a' (_Arg): the op stands for an argument"},
      {"node { name: 'c' op: 'Const' " + Attr("dtype", "type: DT_INT32") +
           Attr("value", "tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 }") +
           "} node { name: 'r' op: '_Retval' input: 'c' " + Attr("T", "type: DT_INT32") + Attr("index", "i: 1000000") +
           "} node { name: 'n' op: 'Identity' input: 'c' input: '^r' " + Attr("T", "type: DT_INT32") + "}",
       {"n"},
       "node 'r' (_Retval): the op stands for an argument or a result"},
      // A constant whose bytes are of another type than it says was read past its end when the node
      // after it was folded.
      {"node { name: 'c' op: 'Const' " + Attr("dtype", "type: DT_DOUBLE") +
           Attr("value", "tensor { dtype: DT_UINT8 tensor_shape { dim { size: 3 } } int_val: 1 }") +
           "} node { name: 'n' op: 'Square' input: 'c' " + Attr("T", "type: DT_DOUBLE") + "}",
       {"n"},
       "attr 'value' is uint8 [3] but attr 'dtype' is float64"},
  };
}

BOOST_AUTO_TEST_CASE(graphs_found_by_fuzzing_fail) {
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

// What no memory holds is refused by an error that says so, with the node's name, by whichever way
// the size comes.
BOOST_AUTO_TEST_CASE(huge_tensors_are_refused) {
  const int64_t huge = 1000000000000;
  const Tensor one = Tensor::Scalar(1.0f), v = Tensor::Vector({1.0f, 2.0f});
  const auto refused = [](const char* what, const absl::StatusOr<std::vector<Tensor>>& result) {
    BOOST_TEST((result.status().code() == absl::StatusCode::kResourceExhausted ||
                result.status().code() == absl::StatusCode::kInvalidArgument),
               what << ": " << result.status());
  };
  BOOST_TEST(
      (EvaluateOp("Fill", {Tensor::Vector({huge}), one}).status().code() == absl::StatusCode::kResourceExhausted));
  refused("Fill", EvaluateOp("Fill", {Tensor::Vector({int64_t{1} << 32, int64_t{1} << 32}), one}));
  refused("Fill of no elements and too many",
          EvaluateOp("Fill", {Tensor::Vector({int64_t{1} << 62, int64_t{1} << 62, int64_t{1} << 62}), one}));
  refused("Range",
          EvaluateOp("Range", {Tensor::Scalar<int64_t>(0), Tensor::Scalar(10 * huge), Tensor::Scalar<int64_t>(1)}));
  refused("Tile", EvaluateOp("Tile", {v, Tensor::Vector({huge})}));
  refused("BroadcastTo", EvaluateOp("BroadcastTo", {one, Tensor::Vector({huge, int64_t{8}})}));
  refused("Pad", EvaluateOp("Pad", {v, Tensor::Of<int64_t>({huge, huge}, TensorShape({1, 2}))}));
  refused("RandomUniform", EvaluateOp("RandomUniform", {Tensor::Vector({huge})}, {{"dtype", DType::kFloat}}));
  refused("OneHot", EvaluateOp("OneHot", {Tensor(DType::kInt64, TensorShape({4096})),
                                          Tensor::Scalar<int32_t>(2147483647), one, one}));
  refused("ScatterNd", EvaluateOp("ScatterNd", {Tensor::Of<int64_t>({0}, TensorShape({1, 1})), Tensor::Vector({1.0f}),
                                                Tensor::Vector({huge})}));
}

// The exponential made an integer of a NaN, which is undefined.
BOOST_AUTO_TEST_CASE(softmax_of_nan_is_nan) {
  Tensor x(DType::kDouble, TensorShape({2, 40}));
  for (int i = 0; i < 80; ++i) x.data<double>()[i] = i == 17 ? std::nan("") : i;
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    auto out = EvaluateOp(op, {x});
    BOOST_REQUIRE_MESSAGE(out.ok(), out.status());
    const auto y = (*out)[0].flat<double>();
    for (int i = 0; i < 80; ++i) BOOST_TEST(std::isnan(y[i]) == (i < 40), op << " " << i << ": " << y[i]);
  }
}

// Sums over no channels divided by their number.
BOOST_AUTO_TEST_CASE(bias_of_no_channels) {
  for (const TensorShape& shape : {TensorShape({3, 0}), TensorShape({0, 0}), TensorShape({2, 4, 5, 0})}) {
    auto gradient = EvaluateOp("BiasAddGrad", {Tensor(DType::kFloat, shape)});
    BOOST_REQUIRE_MESSAGE(gradient.ok(), gradient.status());
    BOOST_TEST((*gradient)[0].num_elements() == 0);
    auto sum = EvaluateOp("BiasAdd", {Tensor(DType::kFloat, shape), Tensor(DType::kFloat, TensorShape({0}))});
    BOOST_REQUIRE_MESSAGE(sum.ok(), sum.status());
  }
}

// A hash table refuses keys that do not equal themselves.
BOOST_AUTO_TEST_CASE(list_diff_keeps_numbers_that_are_none) {
  const float nan = std::nanf("");
  auto out = EvaluateOp("ListDiff", {Tensor::Vector({nan, 1.0f, 2.0f, nan}), Tensor::Vector({nan, 2.0f, nan})});
  BOOST_REQUIRE_MESSAGE(out.ok(), out.status());
  BOOST_REQUIRE_EQUAL((*out)[0].num_elements(), 3);
  BOOST_TEST((*out)[0].flat<float>()[1] == 1.0f);
  BOOST_TEST((*out)[1].flat<int32_t>()[2] == 3);
}

}  // namespace fuzzed_test
}  // namespace troupe
