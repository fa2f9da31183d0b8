#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct InvFn {
  template <class T> static T Do(T x) { return T(1) / x; }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kInv);
    math::AddLoopsTo<InvFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Inv")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("ReciprocalGrad", Out(g), Grad(g))); })
    .Doc("1 / x.");

TROUPE_KERNEL("Inv").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
