#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ExpFn {
  template <class T>
  static T Do(T x) {
    return std::exp(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kExp);
    math::AddLoopsTo<ExpFn, void, double, std::complex<float>, std::complex<double>>(&t, 8);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Exp")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Conj(Out(g))); })
    .Doc("e to the power of x.");

TROUPE_KERNEL("Exp").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
