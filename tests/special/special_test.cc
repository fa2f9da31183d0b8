// Gradients of the functions of statistics against finite differences. Values are compared in
// tests/ops.
#include <limits>
#include <utility>
#include <vector>

#include "tests/autodiff/numeric.h"
#include "tests/ops/run_op.h"

namespace troupe::testing {
namespace special_test {

using test::Random;

// The gradients of op(inputs...) with respect to those inputs whose index is in `which`.
void Check(std::string_view op, const std::vector<Tensor>& values, const std::vector<int>& which) {
  const Scope s = Scope::NewRootScope();
  std::vector<Output> all, xs;
  Feeds feeds;
  for (size_t i = 0; i < values.size(); ++i) {
    all.push_back(Source(s, StrCat("x", i), values[i].shape()));
    feeds.emplace_back(StrCat("x", i), values[i]);
  }
  for (int i : which) xs.push_back(all[i]);
  const Output y = Op(s, op, {all.begin(), all.end()}), weighed = SumAll(s, y * Op(s, "Sin", {y + 1.0}));
  BOOST_TEST_CONTEXT(op) CheckGradients(s, weighed, xs, feeds, Gradients(s, {weighed}, xs));
}

Tensor Positive(const TensorShape& shape, double low, double high, uint64_t seed = 1) {
  return Random(DType::kDouble, shape, low, high, seed);
}

BOOST_AUTO_TEST_CASE(special_functions_have_the_slopes_of_differences) {
  Check("Digamma", {Positive({7}, 0.5, 9)}, {0});
  Check("Lgamma", {Positive({7}, 0.5, 9)}, {0});
  Check("Zeta", {Positive({3}, 1.5, 5), Positive({2, 3}, 0.5, 5, 2)}, {1});
  Check("Zeta", {Positive({2, 3}, 1.5, 5), Positive({3}, 0.5, 5, 2)}, {1});
  Check("Polygamma", {Tensor::Vector<double>({0, 1, 2}), Positive({2, 3}, 0.8, 5)}, {1});
  for (const char* op : {"Igamma", "Igammac"}) {
    Check(op, {Positive({2, 3}, 0.3, 6), Positive({3}, 0.2, 6, 2)}, {0, 1});
    Check(op, {Positive({1}, 0.3, 6), Positive({4}, 0.2, 6, 2)}, {0, 1});
  }
  Check("Betainc", {Positive({4}, 0.5, 5), Positive({4}, 0.5, 5, 2), Positive({4}, 0.1, 0.9, 3)}, {2});
  Check("Betainc", {Positive({4}, 0.5, 5), Tensor::Scalar<double>(2.5), Tensor::Scalar<double>(0.3)}, {2});
}

// Next to its poles Digamma is -1 / (distance to the pole), on either side, however close. Values
// of TensorFlow.
BOOST_AUTO_TEST_CASE(digamma_next_to_its_poles) {
  const std::vector<std::pair<double, double>> wanted = {
      {-1e-300, 1e300},
      {-1e-30, 1e30},
      {-1e-17, 1e17},
      {-1e-10, 9999999999.422785},
      {-1e-5, 99999.42276788561},
      {-1.0000000001, 9999999173.019144},
      {-0.999999999999, -1000022122209.0802},
      {-1.999999999, -999999916.3368516},
      {-0.5, 0.03648997397857645},
      {-0.75, -2.894120200042933},
      {-1.5, 0.7031566406452434},
      {-3.25, 4.4662758723502805},
      {-100.3, 6.895643124860435},
  };
  for (const auto& [x, y] : wanted) {
    BOOST_TEST_CONTEXT("x = " << x) {
      BOOST_CHECK_CLOSE_FRACTION(test::Run("Digamma", {Tensor::Scalar(x)}).scalar<double>(), y, 1e-12);
      BOOST_CHECK_CLOSE_FRACTION(test::Run("Polygamma", {Tensor::Scalar(0.0), Tensor::Scalar(x)}).scalar<double>(), y,
                                 1e-12);
    }
  }
  for (const auto& [x, y] : std::vector<std::pair<float, float>>{
           {-1e-30f, 1e30f}, {-1e-10f, 1e10f}, {-1.0000001f, 8388608.f}, {-0.99999994f, -16777216.f}}) {
    BOOST_CHECK_CLOSE_FRACTION(test::Run("Digamma", {Tensor::Scalar(x)}).scalar<float>(), y, 1e-6f);
  }
}

// Terms that are smaller than every number add nothing, whatever they are multiplied by.
BOOST_AUTO_TEST_CASE(zeta_of_huge_exponents) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto zeta = [](double x, double q) {
    return test::Run("Zeta", {Tensor::Scalar(x), Tensor::Scalar(q)}).scalar<double>();
  };
  for (const double x : {500.0, 1e13, 1e300, infinity}) {
    BOOST_TEST(zeta(x, 10) == 0);
    BOOST_TEST(zeta(x, 1) == 1);
  }
  BOOST_TEST(zeta(1e13, 2) == 0);
  BOOST_TEST(zeta(1e13, 0.5) == infinity);
  BOOST_TEST(zeta(2e13, -2.5) == infinity);
}

// A sample that moves as RandomGammaGrad says keeps its place in the distribution, above and below
// the mean.
BOOST_AUTO_TEST_CASE(samples_of_gamma_distributions_keep_their_place) {
  const Tensor a = Positive({40}, 0.2, 20), x = Positive({40}, 0.1, 30, 2);
  const Tensor move = test::Run("RandomGammaGrad", {a, x});
  constexpr double kStep = 1e-6;
  Tensor ends[2][2];
  for (int side = 0; side < 2; ++side) {
    for (int which = 0; which < 2; ++which) ends[side][which] = (which == 0 ? a : x).Clone();
    for (int64_t i = 0; i < 40; ++i) {
      ends[side][0].data<double>()[i] += side == 0 ? -kStep : kStep;
      ends[side][1].data<double>()[i] += (side == 0 ? -kStep : kStep) * move.data<double>()[i];
    }
  }
  const Tensor low = test::Run("Igamma", {ends[0][0], ends[0][1]}),
               high = test::Run("Igamma", {ends[1][0], ends[1][1]});
  for (int64_t i = 0; i < 40; ++i) BOOST_CHECK_SMALL(high.data<double>()[i] - low.data<double>()[i], 1e-13);
}

// What flows to alpha is summed over the samples of each of its elements.
BOOST_AUTO_TEST_CASE(gradient_of_random_gamma) {
  const Scope s = Scope::NewRootScope();
  const Output alpha = Const(s, Tensor::Of<double>({0.5, 2, 7}, TensorShape({3, 1})));
  const Output sample = Op(s, "RandomGamma", {Const(s, Tensor::Vector<int32_t>({2, 2})), alpha}, {{"seed", 3}});
  const Output grad = Gradients(s, {SumAll(s, sample)}, {alpha})[0];
  const std::vector<Tensor> got = RunGraph(*s.graph(), {}, {grad.name(), sample.name(), alpha.name()});
  const Tensor moves = test::Run("RandomGammaGrad", {got[2], got[1]});
  BOOST_REQUIRE(got[0].HasShape(TensorShape({3, 1})));
  for (int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < 4; ++k) sum += moves.data<double>()[k * 3 + i];
    BOOST_CHECK_CLOSE_FRACTION(got[0].data<double>()[i], sum, 1e-13);
  }
}

}  // namespace special_test
}  // namespace troupe::testing
