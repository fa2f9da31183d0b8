// LRN against a naive loop in float64: windows wider than a row, rows shorter and longer than the
// vectors, powers that are roots and others.
#include <cmath>
#include <limits>

#include "tests/common/run_text.h"
#include "troupe/emit.h"

namespace troupe {
namespace lrn_test {

absl::StatusOr<Tensor> RunLrn(const Tensor& in, int64_t radius, float bias, float alpha, float beta, int threads) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root, DType::kFloat);
  const AttrMap attrs = {{"depth_radius", radius}, {"bias", bias}, {"alpha", alpha}, {"beta", beta}};
  const Output y = EmitOp(root, "LRN", {x}, attrs).output(0);
  TROUPE_RETURN_IF_ERROR(root.status());
  TROUPE_ASSIGN_OR_RETURN(const auto session, Session::Create({.runtime_options = {.threads = threads}}));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session->Run({{x, in}}, {y}, {}, &out));
  return out[0];
}

BOOST_AUTO_TEST_SUITE(lrn)

BOOST_AUTO_TEST_CASE(values) {
  for (const int64_t depth : {1, 2, 7, 63, 64, 65, 150}) {
    const Tensor in = Uniform(TensorShape({2, 3, 5, depth}), -2, 2, 1);
    for (const int64_t radius : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{200}, int64_t{INT32_MAX}}) {
      for (const float beta : {0.5f, 0.75f, 1.0f, 0.6f, 0.0f, -0.5f}) {
        const float bias = 0.7f, alpha = 0.3f;
        const auto out = RunLrn(in, radius, bias, alpha, beta, 2);
        BOOST_REQUIRE_MESSAGE(out.ok(), out.status().ToString());
        int wrong = 0;
        for (int64_t row = 0; row < 30; ++row) {
          const float *x = in.data<float>() + row * depth, *y = out->data<float>() + row * depth;
          for (int64_t d = 0; d < depth; ++d) {
            double sum = 0;
            for (int64_t k = 0; k < depth; ++k) sum += std::abs(k - d) <= radius ? double{x[k]} * x[k] : 0;
            const double want = x[d] * std::pow(bias + alpha * sum, -static_cast<double>(beta));
            wrong += !(std::abs(y[d] - want) <= 2e-6 * std::abs(want) + 1e-30);
          }
        }
        BOOST_TEST(wrong == 0, depth << " " << radius << " " << beta);
      }
    }
  }
}

// Sums that have no power: 0, negative ones, infinite ones, NaN.
BOOST_AUTO_TEST_CASE(odd_sums) {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float beta : {0.5f, 0.75f, 1.0f, 0.6f}) {
    Tensor in(DType::kFloat, TensorShape({1, 1, 1, 4}));
    const float values[] = {0, 1, infinite, std::nanf("")};
    std::copy_n(values, 4, in.data<float>());
    for (const float bias : {0.0f, -3.0f}) {
      const auto out = RunLrn(in, 0, bias, 1, beta, 1);
      BOOST_REQUIRE_MESSAGE(out.ok(), out.status().ToString());
      for (int i = 0; i < 4; ++i) {
        const float want = values[i] * std::pow(bias + values[i] * values[i], -beta), got = out->data<float>()[i];
        BOOST_TEST((std::isnan(want) ? std::isnan(got) : std::abs(got - want) <= 1e-6f * std::abs(want)),
                   beta << " " << bias << " " << i << ": " << got << " " << want);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lrn_test
}  // namespace troupe
