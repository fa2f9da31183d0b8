// ApplyAdagradV2, ResourceApplyAdagradV2: a step of Adagrad with an epsilon.
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct AdagradV2Rule {
  static constexpr int kSlots = 2, kGrad = 4;
  static constexpr std::initializer_list<int> kScalars = {2, 3};
  explicit AdagradV2Rule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::Loops<T>().adagrad_v2(s[0], s[1], grad, state::Scalar<T>(ctx, 2), state::Scalar<T>(ctx, 3), update_slots, n);
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
    .Shape(state::ApplyRuleShape<AdagradV2Rule>)
    .NotDifferentiable(state::kNoGradientOfApply)
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
    .Shape(state::ApplyRuleShape<AdagradV2Rule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyAdagradV2 of variables that are named by handles.");

TROUPE_KERNEL("ApplyAdagradV2").Device("CPU").Class<state::ApplyKernel<AdagradV2Rule>>();
TROUPE_KERNEL("ResourceApplyAdagradV2").Device("CPU").Class<state::ApplyKernel<AdagradV2Rule>>();

}  // namespace
}  // namespace troupe
