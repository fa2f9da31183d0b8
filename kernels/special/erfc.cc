#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ErfcFn {
  template <class T>
  static T Do(T x) {
    return std::erfc(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<ErfcFn, float, double>(15);
  return table;
}

}  // namespace

TROUPE_OP("Erfc")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      return SetUnary(g, Grad(g) * (-1.1283791670955126 * Apply("Exp", -Apply("Square", In(g, 0)))));
    })
    .Doc("1 - erf(x), precise where x is large.");

TROUPE_KERNEL("Erfc").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
