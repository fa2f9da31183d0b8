#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/special/special_functions.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct DigammaFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(math::Digamma(x));
  }
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
    .Gradient([](GradientContext& g) {
      return SetUnary(g, Grad(g) * Apply("Polygamma", Number(In(g, 0), 1), In(g, 0)));
    })
    .Doc("The derivative of lgamma(x); NaN at 0, -1, -2, ...");

TROUPE_KERNEL("Digamma").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
