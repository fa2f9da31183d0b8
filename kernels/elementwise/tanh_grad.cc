#include "kernels/elementwise/unary_grad.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (T(1) - y * y);
  }
};

const OpRegistrar op = math::UnaryGradOp("TanhGrad")
                           .Gradient([](GradientContext& g) -> absl::Status {
                             const Value y = Conj(In(g, 0)), dy = Conj(In(g, 1)), d = Grad(g);
                             return SetBoth(g, -2.0 * (d * dy * y), Apply("TanhGrad", y, d));
                           })
                           .Doc("The gradient of Tanh: dy * (1 - y * y), where y = tanh(x).");

}  // namespace

TROUPE_KERNEL("TanhGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<math::UnaryGradTable<math::HotBinary::kTanhGrad, GradFn>, math::BinaryShapes::kSame>);

}  // namespace troupe
