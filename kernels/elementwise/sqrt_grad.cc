#include "kernels/elementwise/unary_grad.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy == T(0) ? T(0) : T(0.5) * dy / std::conj(y);
  }
};

const OpRegistrar op = math::UnaryGradOp("SqrtGrad")
                           .Gradient([](GradientContext& g) -> absl::Status {
                             const Value ga = Grad(g) / In(g, 0);
                             return SetBoth(g, -Conj(ga) * Out(g), 0.5 * ga);
                           })
                           .Doc("The gradient of Sqrt: dy * 0.5 / conj(y), where y = sqrt(x); zero where dy is.");

}  // namespace

TROUPE_KERNEL("SqrtGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<math::UnaryGradTable<math::HotBinary::kSqrtGrad, GradFn>, math::BinaryShapes::kSame>);

}  // namespace troupe
