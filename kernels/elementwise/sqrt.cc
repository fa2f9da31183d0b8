#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct SqrtFn {
  template <class T>
  static T Do(T x) {
    return std::sqrt(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kSqrt);
    math::AddLoopsTo<SqrtFn, void, std::complex<float>, std::complex<double>>(&t, 20);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Sqrt")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("SqrtGrad", Out(g), Grad(g))); })
    .Doc("The square root of x; NaN for negative numbers.");

TROUPE_KERNEL("Sqrt").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
