#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy == T(0) ? T(0) : T(0.5) * dy / std::conj(y);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kSqrtGrad);
    math::AddLoopsTo<GradFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("SqrtGrad")
    .Input("y: T")
    .Input("dy: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value ga = Grad(g) / In(g, 0);
      return SetBoth(g, -Conj(ga) * Out(g), 0.5 * ga);
    })
    .Doc("The gradient of Sqrt: dy * 0.5 / conj(y), where y = sqrt(x); zero where dy is.");

TROUPE_KERNEL("SqrtGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kSame>);

}  // namespace troupe
