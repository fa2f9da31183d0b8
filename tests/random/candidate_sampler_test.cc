// What candidate samplers draw is compared with TensorFlow's in draws_test.cc; here what they
// expect, what they refuse, and the hits among the draws.
#include <boost/test/unit_test.hpp>
#include <algorithm>
#include <cmath>
#include <set>

#include "troupe/evaluate.h"

namespace troupe {
namespace {

absl::StatusOr<std::vector<Tensor>> Draw(const char* op, int64_t n, int64_t range, bool unique) {
  return EvaluateOp(
      op, {Tensor::Of<int64_t>({1, 3, 0, 2}, {2, 2})},
      {{"num_true", 2}, {"num_sampled", n}, {"range_max", range}, {"unique", unique}, {"seed", 3}, {"seed2", 5}});
}

BOOST_AUTO_TEST_CASE(counts_that_samplers_expect) {
  for (const bool log : {false, true}) {
    const char* const op = log ? "LogUniformCandidateSampler" : "UniformCandidateSampler";
    const auto probability = [&](int64_t c) {
      return log ? (std::log(c + 2.0) - std::log(c + 1.0)) / std::log(51.0) : 1 / 50.0;
    };
    const auto often = Draw(op, 40, 50, false), once = Draw(op, 40, 50, true);
    BOOST_REQUIRE_MESSAGE(often.ok(), often.status());
    BOOST_REQUIRE_MESSAGE(once.ok(), once.status());
    for (int i = 0; i < 40; ++i) {
      const int64_t c = (*often)[0].data<int64_t>()[i];
      BOOST_TEST((c >= 0 && c < 50));
      BOOST_TEST(std::abs((*often)[2].data<float>()[i] - 40 * probability(c)) < 1e-5);
    }
    const std::set<int64_t> different((*once)[0].data<int64_t>(), (*once)[0].data<int64_t>() + 40);
    BOOST_TEST(different.size() == 40u);
    // 1 - (1 - p)^tries for one number of tries, which the rarest class tells most exactly.
    const float* const expected = (*once)[2].data<float>();
    const auto rarest = std::min_element(expected, expected + 40) - expected;
    const double tries = std::log1p(-expected[rarest]) / std::log1p(-probability((*once)[0].data<int64_t>()[rarest]));
    BOOST_TEST(tries > 40.5);
    for (int i = 0; i < 40; ++i) {
      const double p = probability((*once)[0].data<int64_t>()[i]);
      BOOST_TEST(std::abs((*once)[2].data<float>()[i] - (1 - std::pow(1 - p, tries))) < 1e-3);
    }
  }
}

BOOST_AUTO_TEST_CASE(samplers_refuse) {
  const auto few = Draw("UniformCandidateSampler", 6, 5, true);
  BOOST_TEST(absl::IsInvalidArgument(few.status()), few.status());
  BOOST_TEST(Draw("UniformCandidateSampler", 6, 5, false).ok());
  BOOST_TEST(Draw("UniformCandidateSampler", 5, 5, true).ok());
  const auto vector = EvaluateOp("LogUniformCandidateSampler", {Tensor::Vector<int64_t>({1, 3})},
                                 {{"num_true", 1}, {"num_sampled", 2}, {"range_max", 9}, {"unique", false}});
  BOOST_TEST(absl::IsInvalidArgument(vector.status()), vector.status());
}

BOOST_AUTO_TEST_CASE(hits_among_the_draws) {
  const auto hits = EvaluateOp("ComputeAccidentalHits",
                               {Tensor::Of<int64_t>({7, 2, 9, 7, 4, 5}, {3, 2}), Tensor::Vector<int64_t>({7, 1, 2, 7})},
                               {{"num_true", 2}});
  BOOST_REQUIRE_MESSAGE(hits.ok(), hits.status());
  BOOST_TEST((*hits)[0].DebugString() == "int32 [3] [0 0 1]");
  BOOST_TEST((*hits)[1].DebugString() == "int64 [3] [3 2 3]");
  BOOST_TEST((*hits)[2].data<float>()[1] == -std::numeric_limits<float>::max());
  const auto wrong = EvaluateOp("ComputeAccidentalHits",
                                {Tensor::Of<int64_t>({7, 2}, {1, 2}), Tensor::Scalar<int64_t>(7)}, {{"num_true", 2}});
  BOOST_TEST(absl::IsInvalidArgument(wrong.status()), wrong.status());
}

}  // namespace
}  // namespace troupe
