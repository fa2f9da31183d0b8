#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct MulNoNanFn {
  template <class T>
  static T Do(T x, T y) {
    return y == T(0) ? T(0) : x * y;
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table =
      math::Loops<MulNoNanFn, float, double, std::complex<float>, std::complex<double>>(1);
  return table;
}

}  // namespace

TROUPE_OP("MulNoNan")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {bfloat16, half, float, double, complex64, complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) {
      return SetBroadcast(g, Apply("MulNoNan", Grad(g), In(g, 1)), Apply("MulNoNan", In(g, 0), Grad(g)));
    })
    .Doc("x * y, or 0 where y is 0, even if x is infinite or NaN; with broadcasting.");

TROUPE_KERNEL("MulNoNan").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
