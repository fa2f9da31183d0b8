#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (T(1) - y * y);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kTanhGrad);
    math::AddLoopsTo<GradFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("TanhGrad")
    .Input("y: T")
    .Input("dy: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value y = Conj(In(g, 0)), dy = Conj(In(g, 1)), d = Grad(g);
      return SetBoth(g, -2.0 * (d * dy * y), Apply("TanhGrad", y, d));
    })
    .Doc("The gradient of Tanh: dy * (1 - y * y), where y = tanh(x).");

TROUPE_KERNEL("TanhGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kSame>);

}  // namespace troupe
