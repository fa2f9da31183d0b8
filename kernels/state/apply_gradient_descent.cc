// ApplyGradientDescent, ResourceApplyGradientDescent: a step down the gradient.
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct GradientDescentRule {
  static constexpr int kSlots = 1, kGrad = 2;
  static constexpr std::initializer_list<int> kScalars = {1};
  explicit GradientDescentRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::Loops<T>().gradient_descent(s[0], grad, state::Scalar<T>(ctx, 1), n);
  }
};

TROUPE_OP("ApplyGradientDescent")
    .Input("var: Ref(T)")
    .Input("alpha: T")
    .Input("delta: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Shape(state::ApplyRuleShape<GradientDescentRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("var -= alpha * delta");

TROUPE_OP("ResourceApplyGradientDescent")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("delta: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(state::ApplyRuleShape<GradientDescentRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyGradientDescent of variables that are named by handles.");

TROUPE_KERNEL("ApplyGradientDescent").Device("CPU").Class<state::ApplyKernel<GradientDescentRule>>();
TROUPE_KERNEL("ResourceApplyGradientDescent").Device("CPU").Class<state::ApplyKernel<GradientDescentRule>>();

}  // namespace
}  // namespace troupe
