#include "kernels/elementwise/unary_grad.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy == T(0) ? T(0) : T(-0.5) * (dy * std::conj(y)) * (std::conj(y) * std::conj(y));
  }
};

const OpRegistrar op =
    math::UnaryGradOp("RsqrtGrad")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value y = Conj(In(g, 0)), d = Grad(g);
          return SetBoth(g, -1.5 * (Conj(d) * In(g, 1) * Apply("Square", y)), Apply("RsqrtGrad", y, d));
        })
        .Doc("The gradient of Rsqrt: -0.5 * dy * conj(y)^3, where y = 1 / sqrt(x); zero where dy is.");

}  // namespace

TROUPE_KERNEL("RsqrtGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<math::UnaryGradTable<math::HotBinary::kRsqrtGrad, GradFn>, math::BinaryShapes::kSame>);

}  // namespace troupe
