// Values of schedules and clips, as TensorFlow's.
#include <limits>

#include "tests/train/run.h"
#include "troupe/train/clip.h"
#include "troupe/train/schedules.h"

namespace troupe::testing {
namespace schedules_test {

BOOST_AUTO_TEST_CASE(rates_follow_their_formulas) {
  struct Case {
    const char* name;
    std::function<Output(const Scope&, const Output&)> make;
    std::vector<double> values;  // at steps 0, 1, 5, 10, 15, 25
  };
  using namespace train;
  const std::vector<Case> cases = {
      {"exponential",
       [](const Scope& s, const Output& t) { return ExponentialDecay(s, 0.1, t, 10, 0.5); },
       {0.100000001, 0.0933033004, 0.0707106814, 0.0500000007, 0.0353553407, 0.0176776703}},
      {"staircase",
       [](const Scope& s, const Output& t) { return ExponentialDecay(s, 0.1, t, 10, 0.5, true); },
       {0.100000001, 0.100000001, 0.100000001, 0.0500000007, 0.0500000007, 0.0250000004}},
      {"natural",
       [](const Scope& s, const Output& t) { return NaturalExponentialDecay(s, 0.1, t, 10, 0.5); },
       {0.100000001, 0.0951229483, 0.0778800771, 0.0606530681, 0.0472366586, 0.0286504813}},
      {"inverse",
       [](const Scope& s, const Output& t) { return InverseTimeDecay(s, 0.1, t, 10, 0.5); },
       {0.100000001, 0.0952381045, 0.0799999982, 0.0666666701, 0.0571428575, 0.0444444455}},
      {"inverse staircase",
       [](const Scope& s, const Output& t) { return InverseTimeDecay(s, 0.1, t, 10, 0.5, true); },
       {0.100000001, 0.100000001, 0.100000001, 0.0666666701, 0.0666666701, 0.0500000007}},
      {"piecewise",
       [](const Scope& s, const Output& t) {
         return PiecewiseConstant(s, t, {5, 10}, {1.0, 0.5, 0.1});
       },
       {1, 1, 1, 0.5, 0.100000001, 0.100000001}},
      {"polynomial",
       [](const Scope& s, const Output& t) { return PolynomialDecay(s, 0.1, t, 10, 0.01, 2.0); },
       {0.100000001, 0.0828999951, 0.0324999988, 0.00999999978, 0.00999999978, 0.00999999978}},
      {"polynomial cycle",
       [](const Scope& s, const Output& t) { return PolynomialDecay(s, 0.1, t, 10, 0.01, 1.0, true); },
       {0.100000001, 0.0909999982, 0.0549999997, 0.00999999978, 0.0324999988, 0.0250000022}},
      {"cosine",
       [](const Scope& s, const Output& t) { return CosineDecay(s, 0.1, t, 10); },
       {0.100000001, 0.0975528285, 0.049999997, 0, 0, 0}},
      {"cosine alpha",
       [](const Scope& s, const Output& t) { return CosineDecay(s, 0.1, t, 20, 0.25); },
       {0.100000001, 0.0995383188, 0.089016512, 0.0625, 0.0359834991, 0.0250000004}},
  };
  const Scope s = Scope::NewRootScope();
  const Output step = Build(s.WithOpName("step"), "Placeholder", {},
                            {{"dtype", DType::kInt64}, {"shape", PartialTensorShape(TensorShape())}});
  std::vector<Output> rates;
  for (const Case& c : cases) rates.push_back(c.make(s, step));
  const auto session = Start(s);
  const int64_t steps[] = {0, 1, 5, 10, 15, 25};
  for (int k = 0; k < 6; ++k) {
    const std::vector<Tensor> got = Fetch(*session, rates, {{"step", Tensor::Scalar(steps[k])}});
    for (size_t i = 0; i < cases.size(); ++i) {
      BOOST_TEST(got[i].TypeAndShape() == "float32 []");
      CheckNear({got[i].scalar<float>()}, {cases[i].values[k]}, 2e-7, StrCat(cases[i].name, " at ", steps[k]));
    }
  }
}

BOOST_AUTO_TEST_CASE(piecewise_constants_must_fit) {
  const Scope s = Scope::NewRootScope();
  train::PiecewiseConstant(s, Const(s, 1), {5, 5}, {1, 2, 3});
  BOOST_TEST(s.status().ToString().find("growing boundaries") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(clipped_gradients_keep_their_direction_within_the_norm) {
  const Scope s = Scope::NewRootScope();
  using namespace train;
  const Output x = Const(s, {{3.0, -4.0}, {0.0, 0.0}}, DType::kFloat), y = Const(s, {12.0}, DType::kFloat);
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<Output> clipped = ClipByGlobalNorm(s, {x, Output(), y}, 6.5),
                            large = ClipByGlobalNorm(s, {x, Output(), y}, 100.0),
                            broken = ClipByGlobalNorm(s, {x, Const(s, Literal(Tensor::Vector<float>({inf})))}, 1.0);
  BOOST_TEST(!clipped[1].valid());
  const std::vector<Output> outs = {ClipByNorm(s, x, 2.5),
                                    ClipByNorm(s, x, 50.0),
                                    ClipByNorm(s, x, 1.0, {1}),
                                    ClipByValue(s, x, -1.0, 2.0),
                                    GlobalNorm(s, {x, y}),
                                    clipped[0],
                                    clipped[2],
                                    large[2],
                                    broken[0]};
  const auto session = Start(s);
  const std::vector<Tensor> got = Fetch(*session, outs);
  const std::vector<std::vector<double>> want = {
      {1.5, -2, 0, 0}, {3, -4, 0, 0}, {0.6, -0.8, 0, 0}, {2, -1, 0, 0}, {13}, {1.5, -2, 0, 0}, {6}, {12}};
  for (size_t i = 0; i < want.size(); ++i) CheckNear(Doubles(got[i]), want[i], 1e-6, StrCat("clip ", i));
  for (double v : Doubles(got[8])) BOOST_TEST(std::isnan(v));
}

}  // namespace schedules_test
}  // namespace troupe::testing
