#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct DivNoNanFn {
  template <class T>
  static T Do(T x, T y) {
    return y == T(0) ? T(0) : x / y;
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table =
      math::Loops<DivNoNanFn, float, double, std::complex<float>, std::complex<double>>(1);
  return table;
}

}  // namespace

TROUPE_OP("DivNoNan")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {half, float, bfloat16, double, complex64, complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value x = Conj(In(g, 0)), y = Conj(In(g, 1)), dz = Grad(g);
      return SetBroadcast(g, Apply("DivNoNan", dz, y), dz * Apply("DivNoNan", Apply("DivNoNan", -x, y), y));
    })
    .Doc("x / y, or 0 where y is 0; with broadcasting.");

TROUPE_KERNEL("DivNoNan").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
