#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ErfFn {
  template <class T>
  static T Do(T x) {
    return std::erf(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<ErfFn, float, double>(15);
  return table;
}

}  // namespace

TROUPE_OP("Erf")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      return SetUnary(g, Grad(g) * (1.1283791670955126 * Apply("Exp", -Apply("Square", In(g, 0)))));
    })
    .Doc("The error function of x: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.");

TROUPE_KERNEL("Erf").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
