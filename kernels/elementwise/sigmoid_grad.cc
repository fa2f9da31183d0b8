#include "kernels/elementwise/unary_grad.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (y * (T(1) - y));
  }
};

const OpRegistrar op = math::UnaryGradOp("SigmoidGrad")
                           .Gradient([](GradientContext& g) -> absl::Status {
                             const Value y = Conj(In(g, 0)), d = Grad(g), gb = d * Conj(In(g, 1));
                             return SetBoth(g, gb - 2.0 * (gb * y), Apply("SigmoidGrad", y, d));
                           })
                           .Doc("The gradient of Sigmoid: dy * y * (1 - y), where y = sigmoid(x).");

}  // namespace

TROUPE_KERNEL("SigmoidGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(
        math::BinaryFactory<math::UnaryGradTable<math::HotBinary::kSigmoidGrad, GradFn>, math::BinaryShapes::kSame>);

}  // namespace troupe
