// Every case of values/array.txt, one by one and with several threads.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "tests/cases/same_value.h"
#include "troupe/evaluate.h"

namespace troupe::test {
namespace values_test {

void RunAll(int threads, int* count) {
  for (const Case& c : ReadCases("values/array.txt")) {
    EvaluateOptions options;
    options.threads = threads;
    const auto got = EvaluateOp(c.op, c.inputs, c.attrs, c.list_sizes, options);
    ++*count;
    if (!got.ok()) {
      BOOST_ERROR(c.where << ": " << c.text << "\n  " << std::string(got.status().message()));
      continue;
    }
    const std::string wrong = WrongOutputs(c, *got);
    BOOST_CHECK_MESSAGE(wrong.empty(), c.where << ": " << c.text << "\n  " << wrong);
  }
}

BOOST_AUTO_TEST_CASE(values_equal_tensorflow) {
  int count = 0;
  RunAll(1, &count);
  BOOST_CHECK_EQUAL(count, 692);
}

BOOST_AUTO_TEST_CASE(values_do_not_depend_on_the_number_of_threads) {
  int count = 0;
  RunAll(3, &count);
  BOOST_CHECK_EQUAL(count, 692);
}

// The ends of LinSpace are its arguments, whatever the step is; BroadcastArgs takes any numbers;
// padding may be a vector of one.
BOOST_AUTO_TEST_CASE(values_at_the_edges) {
  const float inf = INFINITY, nan = NAN;
  const struct {
    float start, stop;
  } kEnds[] = {{0, inf}, {inf, 0}, {-inf, inf}, {inf, inf}, {0, nan}, {nan, 0}, {2, 5}};
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const auto& e : kEnds) {
    const auto out =
        EvaluateOp("LinSpace", {Tensor::Scalar(e.start), Tensor::Scalar(e.stop), Tensor::Scalar<int32_t>(3)});
    BOOST_REQUIRE(out.ok());
    const float* y = (*out)[0].data<float>();
    BOOST_TEST((same(y[0], e.start) && same(y[2], e.stop)),
               e.start << " to " << e.stop << ": " << y[0] << ", " << y[2]);
  }
  const auto broadcast = [](const char* text) {
    const Case c = ParseCase(StrCat("BroadcastArgs | ", text));
    const auto out = EvaluateOp(c.op, c.inputs);
    return out.ok() ? Difference((*out)[0], c.outputs[0], 0) : std::string(out.status().message());
  };
  BOOST_TEST(broadcast("int32[0]{} ; int32[3]{3 -2 1} | int32[3]{3 -2 1}") == "");
  BOOST_TEST(broadcast("int64[2]{2 1} ; int64[3]{1 1 -3} | int64[3]{1 2 -3}") == "");
  BOOST_TEST(broadcast("int64[1]{-2} ; int64[1]{-2} | int64[1]{-2}") == "");
  BOOST_TEST(broadcast("int64[1]{-1} ; int64[2]{5 2} | int64[2]{5 2}").find("Incompatible shapes: [-1] vs. [5,2]") !=
             std::string::npos);
  Tensor x(DType::kFloat, TensorShape({2, 2}));
  std::fill_n(x.data<float>(), 4, 1.0f);
  for (const TensorShape& shape : {TensorShape(), TensorShape({1}), TensorShape({1, 1})}) {
    Tensor padding(DType::kFloat, shape);
    padding.data<float>()[0] = 7;
    const auto out = EvaluateOp("MatrixDiagPartV2", {x, Tensor::Vector<int32_t>({0, 1}), padding});
    BOOST_REQUIRE_MESSAGE(out.ok(), out.status().ToString());
    BOOST_TEST((*out)[0].data<float>()[1] == 7);
  }
}

}  // namespace values_test
}  // namespace troupe::test
