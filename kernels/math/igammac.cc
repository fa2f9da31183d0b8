// Igammac: the upper incomplete gamma integral.
#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"
#include "troupe/kernels/math/special_functions.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct IgammacFn {
  template <class T>
  static T Do(T a, T x) {
    return static_cast<T>(math::Igammac(a, x));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<IgammacFn, float, double>(300);
  return table;
}

}  // namespace

TROUPE_OP("Igammac")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value a = In(g, 0), x = In(g, 1);
      // In logarithms first, since gamma(a) can be large.
      const Value density = Apply("Exp", (Apply("Log", x) * (a - Number(a, 1))) - x - Apply("Lgamma", a));
      return SetBroadcast(g, -Grad(g) * Apply("IgammaGradA", a, x), -Grad(g) * density);
    })
    .Doc("The integral of t^(a-1) e^-t from x on, divided by gamma(a), with broadcasting: 1 - Igamma(a, x).");

TROUPE_KERNEL("Igammac").Device("CPU").Types("T", math::kFloats).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
