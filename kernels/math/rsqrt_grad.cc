#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy == T(0) ? T(0) : T(-0.5) * (dy * std::conj(y)) * (std::conj(y) * std::conj(y));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kRsqrtGrad);
    math::AddLoopsTo<GradFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("RsqrtGrad")
    .Input("y: T")
    .Input("dy: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value y = Conj(In(g, 0)), d = Grad(g);
      return SetBoth(g, -1.5 * (Conj(d) * In(g, 1) * Apply("Square", y)), Apply("RsqrtGrad", y, d));
    })
    .Doc("The gradient of Rsqrt: -0.5 * dy * conj(y)^3, where y = 1 / sqrt(x); zero where dy is.");

TROUPE_KERNEL("RsqrtGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kSame>);

}  // namespace troupe
