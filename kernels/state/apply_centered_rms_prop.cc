// ApplyCenteredRMSProp, ResourceApplyCenteredRMSProp: a step of RMSProp with centered moments.
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct CenteredRMSPropRule {
  static constexpr int kSlots = 4, kGrad = 8;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  explicit CenteredRMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::Loops<T>().centered_rms_prop(s[0], s[1], s[2], s[3], grad, state::Scalar<T>(ctx, 4),
                                        state::Scalar<T>(ctx, 5), state::Scalar<T>(ctx, 6), state::Scalar<T>(ctx, 7),
                                        n);
  }
};

TROUPE_OP("ApplyCenteredRMSProp")
    .Input("var: Ref(T)")
    .Input("mg: Ref(T)")
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
    .Shape(state::ApplyRuleShape<CenteredRMSPropRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc(
        "ms += (1 - rho) * (grad * grad - ms); mg += (1 - rho) * (grad - mg); "
        "mom = momentum * mom + lr * grad / sqrt(ms - mg * mg + epsilon); var -= mom");

TROUPE_OP("ResourceApplyCenteredRMSProp")
    .Input("var: resource")
    .Input("mg: resource")
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
    .Shape(state::ApplyRuleShape<CenteredRMSPropRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyCenteredRMSProp of variables that are named by handles.");

TROUPE_KERNEL("ApplyCenteredRMSProp").Device("CPU").Class<state::ApplyKernel<CenteredRMSPropRule>>();
TROUPE_KERNEL("ResourceApplyCenteredRMSProp").Device("CPU").Class<state::ApplyKernel<CenteredRMSPropRule>>();

}  // namespace
}  // namespace troupe
