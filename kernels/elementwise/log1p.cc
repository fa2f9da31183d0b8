#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct Log1pFn {
  template <class T>
  static T Do(T x) {
    return std::log1p(x);
  }
  // The rounding of 1 + z is undone by dividing by what was added.
  template <class T>
  static std::complex<T> Do(std::complex<T> z) {
    const std::complex<T> u = T(1) + z;
    if (u == T(1)) return z;
    const std::complex<T> log_u = std::log(u);
    return std::isinf(u.real()) || u == log_u ? log_u : z * (log_u / (u - T(1)));
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::ULoops<Log1pFn, float, double>(15);
    math::AddLoopsTo<Log1pFn, void, std::complex<float>, std::complex<double>>(&t, 60);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Log1p")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Reciprocal", 1.0 + Conj(In(g, 0)))); })
    .Doc("log(1 + x), precise where x is small.");

TROUPE_KERNEL("Log1p").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
