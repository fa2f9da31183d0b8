// ApplyAdam, ResourceApplyAdam: a step of Adam.
#include <cmath>

#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct AdamRule {
  static constexpr int kSlots = 3, kGrad = 9;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5, 6, 7, 8};
  explicit AdamRule(KernelInit& init) : nesterov(init.Attr<bool>("use_nesterov")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    const T alpha =
        state::Scalar<T>(ctx, 5) * Root(T(1) - state::Scalar<T>(ctx, 4)) / (T(1) - state::Scalar<T>(ctx, 3));
    state::Loops<T>().adam(s[0], s[1], s[2], grad, alpha, state::Scalar<T>(ctx, 6), state::Scalar<T>(ctx, 7),
                           state::Scalar<T>(ctx, 8), nesterov, n);
  }
  template <class T>
  static T Root(T x) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return T(std::sqrt(static_cast<float>(x)));
    } else {
      return std::sqrt(x);
    }
  }
  const bool nesterov;
};

TROUPE_OP("ApplyAdam")
    .Input("var: Ref(T)")
    .Input("m: Ref(T)")
    .Input("v: Ref(T)")
    .Input("beta1_power: T")
    .Input("beta2_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Shape(state::ApplyRuleShape<AdamRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc(
        "lr_t = lr * sqrt(1 - beta2_power) / (1 - beta1_power); m += (1 - beta1) * (grad - m); v += (1 - beta2) * "
        "(grad * grad - v); "
        "var -= lr_t * m / (sqrt(v) + epsilon), with use_nesterov: lr_t * (m * beta1 + (1 - beta1) * grad) in place of "
        "lr_t * m");

TROUPE_OP("ResourceApplyAdam")
    .Input("var: resource")
    .Input("m: resource")
    .Input("v: resource")
    .Input("beta1_power: T")
    .Input("beta2_power: T")
    .Input("lr: T")
    .Input("beta1: T")
    .Input("beta2: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Stateful()
    .Shape(state::ApplyRuleShape<AdamRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyAdam of variables that are named by handles.");

TROUPE_KERNEL("ApplyAdam").Device("CPU").Class<state::ApplyKernel<AdamRule>>();
TROUPE_KERNEL("ResourceApplyAdam").Device("CPU").Class<state::ApplyKernel<AdamRule>>();

}  // namespace
}  // namespace troupe
