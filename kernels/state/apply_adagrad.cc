// A step of Adagrad: ApplyAdagrad, ApplyAdagradV2 (with an epsilon) and their Resource forms.
#include "kernels/state/optimizer_op.h"

namespace troupe::state {
namespace {

struct AdagradRule {
  static constexpr int kSlots = 2, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {2};
  explicit AdagradRule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adagrad(s[0], s[1], grad, Scalar<T>(ctx, 2), update_slots, n);
  }
  const bool update_slots;
};

TROUPE_OP("ApplyAdagrad")
    .Input("var: Ref(T)")
    .Input("accum: Ref(T)")
    .Input("lr: T")
    .Input("grad: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Shape(ApplyRuleShape<AdagradRule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("accum += grad * grad (with update_slots); var -= lr * grad / sqrt(accum)");

TROUPE_OP("ResourceApplyAdagrad")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("grad: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Stateful()
    .Shape(ApplyRuleShape<AdagradRule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("ApplyAdagrad of variables that are named by handles.");

TROUPE_KERNEL("ApplyAdagrad").Device("CPU").Class<ApplyKernel<AdagradRule>>();
TROUPE_KERNEL("ResourceApplyAdagrad").Device("CPU").Class<ApplyKernel<AdagradRule>>();

struct AdagradV2Rule {
  static constexpr int kSlots = 2, kGrad = 4;
  static constexpr std::initializer_list<int> kScalars = {2, 3};
  explicit AdagradV2Rule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adagrad_v2(s[0], s[1], grad, Scalar<T>(ctx, 2), Scalar<T>(ctx, 3), update_slots, n);
  }
  const bool update_slots;
};

TROUPE_OP("ApplyAdagradV2")
    .Input("var: Ref(T)")
    .Input("accum: Ref(T)")
    .Input("lr: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Shape(ApplyRuleShape<AdagradV2Rule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("accum += grad * grad (with update_slots); var -= lr * grad / (sqrt(accum) + epsilon)");

TROUPE_OP("ResourceApplyAdagradV2")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("update_slots: bool = true")
    .Stateful()
    .Shape(ApplyRuleShape<AdagradV2Rule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("ApplyAdagradV2 of variables that are named by handles.");

TROUPE_KERNEL("ApplyAdagradV2").Device("CPU").Class<ApplyKernel<AdagradV2Rule>>();
TROUPE_KERNEL("ResourceApplyAdagradV2").Device("CPU").Class<ApplyKernel<AdagradV2Rule>>();

}  // namespace
}  // namespace troupe::state
