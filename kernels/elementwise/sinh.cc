#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct SinhFn {
  template <class T>
  static T Do(T x) {
    return std::sinh(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::ULoops<SinhFn, float, double>(15);
    math::AddLoopsTo<SinhFn, void, std::complex<float>, std::complex<double>>(&t, 60);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Sinh")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Cosh", Conj(In(g, 0)))); })
    .Doc("The hyperbolic sine of x.");

TROUPE_KERNEL("Sinh").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
