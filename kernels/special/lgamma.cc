#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct LgammaFn {
  // The variants that do not write the global `signgam`.
  static float Do(float x) {
    int sign;
    return lgammaf_r(x, &sign);
  }
  static double Do(double x) {
    int sign;
    return lgamma_r(x, &sign);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<LgammaFn, float, double>(30);
  return table;
}

}  // namespace

TROUPE_OP("Lgamma")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Digamma", In(g, 0))); })
    .Doc("The logarithm of the magnitude of the gamma function of x.");

TROUPE_KERNEL("Lgamma").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
