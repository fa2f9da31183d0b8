#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct TanhFn {
  template <class T>
  static T Do(T x) {
    return std::tanh(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kTanh);
    math::AddLoopsTo<TanhFn, void, double, std::complex<float>, std::complex<double>>(&t, 15);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Tanh")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("TanhGrad", Conj(Out(g)), Grad(g))); })
    .Doc("The hyperbolic tangent of x.");

TROUPE_KERNEL("Tanh").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
