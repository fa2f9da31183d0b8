#include <cmath>
#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct XdivyFn {
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x / y;
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table =
      math::Loops<XdivyFn, float, double, std::complex<float>, std::complex<double>>(15);
  return table;
}

}  // namespace

TROUPE_OP("Xdivy")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {half, bfloat16, float, double, complex64, complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value x = In(g, 0), y = In(g, 1);
      const Value some = CastLike(Apply("NotEqual", x, Number(x, 0)), x);
      return SetBroadcast(g, Apply("Xdivy", some, y) * Grad(g), Apply("Xdivy", -x, Apply("Square", y)) * Grad(g));
    })
    .Doc("x / y, or 0 where x is 0; with broadcasting.");

TROUPE_KERNEL("Xdivy").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
