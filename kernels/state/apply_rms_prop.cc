// ApplyRMSProp, ResourceApplyRMSProp: a step of RMSProp.
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct RMSPropRule {
  static constexpr int kSlots = 3, kGrad = 7;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5, 6};
  explicit RMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::Loops<T>().rms_prop(s[0], s[1], s[2], grad, state::Scalar<T>(ctx, 3), state::Scalar<T>(ctx, 4),
                               state::Scalar<T>(ctx, 5), state::Scalar<T>(ctx, 6), n);
  }
};

TROUPE_OP("ApplyRMSProp")
    .Input("var: Ref(T)")
    .Input("ms: Ref(T)")
    .Input("mom: Ref(T)")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Shape(state::ApplyRuleShape<RMSPropRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ms += (1 - rho) * (grad * grad - ms); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom");

TROUPE_OP("ResourceApplyRMSProp")
    .Input("var: resource")
    .Input("ms: resource")
    .Input("mom: resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("momentum: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(state::ApplyRuleShape<RMSPropRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyRMSProp of variables that are named by handles.");

TROUPE_KERNEL("ApplyRMSProp").Device("CPU").Class<state::ApplyKernel<RMSPropRule>>();
TROUPE_KERNEL("ResourceApplyRMSProp").Device("CPU").Class<state::ApplyKernel<RMSPropRule>>();

}  // namespace
}  // namespace troupe
