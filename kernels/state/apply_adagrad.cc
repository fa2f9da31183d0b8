// ApplyAdagrad, ResourceApplyAdagrad: a step of Adagrad.
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct AdagradRule {
  static constexpr int kSlots = 2, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {2};
  explicit AdagradRule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::Loops<T>().adagrad(s[0], s[1], grad, state::Scalar<T>(ctx, 2), update_slots, n);
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
    .Shape(state::ApplyRuleShape<AdagradRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
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
    .Shape(state::ApplyRuleShape<AdagradRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyAdagrad of variables that are named by handles.");

TROUPE_KERNEL("ApplyAdagrad").Device("CPU").Class<state::ApplyKernel<AdagradRule>>();
TROUPE_KERNEL("ResourceApplyAdagrad").Device("CPU").Class<state::ApplyKernel<AdagradRule>>();

}  // namespace
}  // namespace troupe
