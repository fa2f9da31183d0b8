#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct RsqrtFn {
  template <class T>
  static T Do(T x) {
    return T(1) / std::sqrt(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kRsqrt);
    math::AddLoopsTo<RsqrtFn, void, std::complex<float>, std::complex<double>>(&t, 25);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Rsqrt")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("RsqrtGrad", Out(g), Grad(g))); })
    .Doc("1 / sqrt(x).");

TROUPE_KERNEL("Rsqrt").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
