// Inputs of array ops that do not fit, and may be skipped. What is refused stands in
// cases/errors/array.txt.
#include <boost/test/unit_test.hpp>

#include "tests/cases/same_value.h"
#include "troupe/evaluate.h"

namespace troupe::test {
namespace errors_test {

// A bad tuple may also be skipped.
BOOST_AUTO_TEST_CASE(bad_tuples_can_be_ignored) {
  const AttrMap ignore = {{"bad_indices_policy", "IGNORE"}};
  auto got = EvaluateOp("GatherNd", {Tensor::Vector<float>({1, 2}), Tensor::Of<int32_t>({1, 7}, {2, 1})}, ignore);
  BOOST_REQUIRE(got.ok());
  BOOST_CHECK_EQUAL(Difference((*got)[0], Tensor::Vector<float>({2, 0})), "");
  got = EvaluateOp("ScatterNd",
                   {Tensor::Of<int32_t>({1, 7}, {2, 1}), Tensor::Vector<float>({1, 2}), Tensor::Vector<int32_t>({2})},
                   ignore);
  BOOST_REQUIRE(got.ok());
  BOOST_CHECK_EQUAL(Difference((*got)[0], Tensor::Vector<float>({0, 1})), "");
}

}  // namespace errors_test
}  // namespace troupe::test
