// ApplyMomentum, ResourceApplyMomentum: a step with momentum.
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct MomentumRule {
  static constexpr int kSlots = 2, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {2, 4};
  explicit MomentumRule(KernelInit& init) : nesterov(init.Attr<bool>("use_nesterov")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::Loops<T>().momentum(s[0], s[1], grad, state::Scalar<T>(ctx, 2), state::Scalar<T>(ctx, 4), nesterov, n);
  }
  const bool nesterov;
};

TROUPE_OP("ApplyMomentum")
    .Input("var: Ref(T)")
    .Input("accum: Ref(T)")
    .Input("lr: T")
    .Input("grad: T")
    .Input("momentum: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Shape(state::ApplyRuleShape<MomentumRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc(
        "accum = accum * momentum + grad; var -= lr * accum, or with use_nesterov: var -= lr * (grad + momentum * "
        "accum)");

TROUPE_OP("ResourceApplyMomentum")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("lr: T")
    .Input("grad: T")
    .Input("momentum: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("use_nesterov: bool = false")
    .Stateful()
    .Shape(state::ApplyRuleShape<MomentumRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyMomentum of variables that are named by handles.");

TROUPE_KERNEL("ApplyMomentum").Device("CPU").Class<state::ApplyKernel<MomentumRule>>();
TROUPE_KERNEL("ResourceApplyMomentum").Device("CPU").Class<state::ApplyKernel<MomentumRule>>();

}  // namespace
}  // namespace troupe
