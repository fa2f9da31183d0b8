// Polygamma: the derivatives of digamma.
#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/special/special_functions.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct PolygammaFn {
  template <class T>
  static T Do(T a, T x) {
    return static_cast<T>(math::Polygamma(a, x));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<PolygammaFn, float, double>(300);
  return table;
}

}  // namespace

TROUPE_OP("Polygamma")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value a = In(g, 0), x = In(g, 1);
      g.Set(1, g.SumToShapeOf((Grad(g) * Apply("Polygamma", 1 + a, x)).out, 1));
      return g.status();
    })
    .Doc("The derivative of order a (a whole number) of digamma at x, with broadcasting. No gradient flows to a.");

TROUPE_KERNEL("Polygamma").Device("CPU").Type<float, double>("T").Factory(math::BinaryFactory<Table>);

}  // namespace troupe
