// Zeta: the zeta function of Hurwitz.
#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/special/special_functions.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ZetaFn {
  template <class T>
  static T Do(T x, T q) {
    return static_cast<T>(math::Zeta(x, q));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<ZetaFn, float, double>(300);
  return table;
}

}  // namespace

TROUPE_OP("Zeta")
    .Input("x: T")
    .Input("q: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value x = In(g, 0), q = In(g, 1);
      g.Set(1, g.SumToShapeOf((Grad(g) * -(x * Apply("Zeta", 1 + x, q))).out, 1));
      return g.status();
    })
    .Doc("The sum of (q + k)^-x over k = 0, 1, 2, ..., with broadcasting; NaN for x < 1. No gradient flows to x.");

TROUPE_KERNEL("Zeta").Device("CPU").Type<float, double>("T").Factory(math::BinaryFactory<Table>);

}  // namespace troupe
