// A step of RMSProp: ApplyRMSProp, ApplyCenteredRMSProp (with centered moments) and their Resource
// forms.
#include "kernels/state/optimizer_op.h"

namespace troupe::state {
namespace {

struct RMSPropRule {
  static constexpr int kSlots = 3, kGrad = 7;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5, 6};
  explicit RMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().rms_prop(s[0], s[1], s[2], grad, Scalar<T>(ctx, 3), Scalar<T>(ctx, 4), Scalar<T>(ctx, 5),
                        Scalar<T>(ctx, 6), n);
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
    .Shape(ApplyRuleShape<RMSPropRule>)
    .NotDifferentiable(kNoGradientOfApply)
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
    .Shape(ApplyRuleShape<RMSPropRule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("ApplyRMSProp of variables that are named by handles.");

TROUPE_KERNEL("ApplyRMSProp").Device("CPU").Class<ApplyKernel<RMSPropRule>>();
TROUPE_KERNEL("ResourceApplyRMSProp").Device("CPU").Class<ApplyKernel<RMSPropRule>>();

struct CenteredRMSPropRule {
  static constexpr int kSlots = 4, kGrad = 8;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  explicit CenteredRMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().centered_rms_prop(s[0], s[1], s[2], s[3], grad, Scalar<T>(ctx, 4), Scalar<T>(ctx, 5), Scalar<T>(ctx, 6),
                                 Scalar<T>(ctx, 7), n);
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
    .Shape(ApplyRuleShape<CenteredRMSPropRule>)
    .NotDifferentiable(kNoGradientOfApply)
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
    .Shape(ApplyRuleShape<CenteredRMSPropRule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("ApplyCenteredRMSProp of variables that are named by handles.");

TROUPE_KERNEL("ApplyCenteredRMSProp").Device("CPU").Class<ApplyKernel<CenteredRMSPropRule>>();
TROUPE_KERNEL("ResourceApplyCenteredRMSProp").Device("CPU").Class<ApplyKernel<CenteredRMSPropRule>>();

}  // namespace
}  // namespace troupe::state
