// Igamma: the lower incomplete gamma integral.
#include "kernels/elementwise/elementwise.h"
#include "kernels/special/igamma_gradient.h"
#include "kernels/special/special_functions.h"

namespace troupe {
namespace {

struct IgammaFn {
  template <class T>
  static T Do(T a, T x) {
    return static_cast<T>(math::Igamma(a, x));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<IgammaFn, float, double>(300);
  return table;
}

}  // namespace

TROUPE_OP("Igamma")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return math::IgammaGradient(g, math::Grad(g)); })
    .Doc(
        "The integral of t^(a-1) e^-t from 0 to x, divided by gamma(a), with broadcasting; NaN unless a > 0 and x >= "
        "0.");

TROUPE_KERNEL("Igamma").Device("CPU").Types("T", math::kFloats).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
