#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct NegFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(-x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kNeg);
    math::AddSmallWrapping<NegFn>(&t);
    math::AddLoopsTo<NegFn, void, std::complex<float>, std::complex<double>>(&t, 0.5f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Neg")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, -Grad(g)); })
    .Doc("-x.");

TROUPE_KERNEL("Neg").Device("CPU").Types("T", math::kSigned).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
