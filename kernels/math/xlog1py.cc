#include <cmath>
#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct Xlog1pyFn {
  static float Log1p(float y) { return std::log1p(y); }
  static double Log1p(double y) { return std::log1p(y); }
  template <class T>
  static std::complex<T> Log1p(std::complex<T> y) {
    return std::log(T(1) + y);
  }
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x * Log1p(y);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table =
      math::Loops<Xlog1pyFn, float, double, std::complex<float>, std::complex<double>>(15);
  return table;
}

}  // namespace

TROUPE_OP("Xlog1py")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {half, bfloat16, float, double, complex64, complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value x = In(g, 0), y = In(g, 1);
      const Value some = CastLike(Apply("NotEqual", x, Number(x, 0)), x);
      return SetBroadcast(g, Apply("Xlog1py", some, y) * Grad(g), Apply("Xdivy", x, 1.0 + y) * Grad(g));
    })
    .Doc("x * log(1 + y), or 0 where x is 0; with broadcasting.");

TROUPE_KERNEL("Xlog1py").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
