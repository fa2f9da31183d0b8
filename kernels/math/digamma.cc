#include <cmath>
#include <limits>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct DigammaFn {
  static double Do(double x) {
    if (x <= 0) {
      if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
      // Reflection; the tangent's argument is reduced first, where it is exact.
      constexpr double kPi = 3.14159265358979323846;
      return Do(1 - x) - kPi / std::tan(kPi * (x - std::floor(x)));
    }
    double shift = 0;
    for (; x < 12; x += 1) shift -= 1 / x;
    if (std::isinf(x)) return x;
    // Bernoulli numbers B(2k) / 2k of the asymptotic series.
    const double z = 1 / (x * x);
    const double series =
        z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
    return shift + std::log(x) - 0.5 / x - series;
  }
  static float Do(float x) { return static_cast<float>(Do(static_cast<double>(x))); }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<DigammaFn, float, double>(40);
  return table;
}

}  // namespace

TROUPE_OP("Digamma")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Polygamma", Number(In(g, 0), 1), In(g, 0))); })
    .Doc("The derivative of lgamma(x); NaN at 0, -1, -2, ...");

TROUPE_KERNEL("Digamma").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
