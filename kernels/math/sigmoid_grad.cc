#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (y * (T(1) - y));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kSigmoidGrad);
    math::AddLoopsTo<GradFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("SigmoidGrad")
    .Input("y: T")
    .Input("dy: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value y = Conj(In(g, 0)), d = Grad(g), gb = d * Conj(In(g, 1));
      return SetBoth(g, gb - 2.0 * (gb * y), Apply("SigmoidGrad", y, d));
    })
    .Doc("The gradient of Sigmoid: dy * y * (1 - y), where y = sigmoid(x).");

TROUPE_KERNEL("SigmoidGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kSame>);

}  // namespace troupe
