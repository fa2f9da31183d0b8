#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct Expm1Fn {
  template <class T>
  static T Do(T x) {
    return std::expm1(x);
  }
  // (e^x cos y - 1) + i e^x sin y, where the real part is written without cancellation.
  template <class T>
  static std::complex<T> Do(std::complex<T> z) {
    const T x = z.real(), y = z.imag(), half = std::sin(y / 2);
    return {std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y)};
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::ULoops<Expm1Fn, float, double>(15);
    math::AddLoopsTo<Expm1Fn, void, std::complex<float>, std::complex<double>>(&t, 60);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Expm1")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Exp", Conj(In(g, 0)))); })
    .Doc("exp(x) - 1, precise where x is small.");

TROUPE_KERNEL("Expm1").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
