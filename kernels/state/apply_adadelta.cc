// ApplyAdadelta, ResourceApplyAdadelta: a step of Adadelta.
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct AdadeltaRule {
  static constexpr int kSlots = 3, kGrad = 6;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5};
  explicit AdadeltaRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::Loops<T>().adadelta(s[0], s[1], s[2], grad, state::Scalar<T>(ctx, 3), state::Scalar<T>(ctx, 4),
                               state::Scalar<T>(ctx, 5), n);
  }
};

TROUPE_OP("ApplyAdadelta")
    .Input("var: Ref(T)")
    .Input("accum: Ref(T)")
    .Input("accum_update: Ref(T)")
    .Input("lr: T")
    .Input("rho: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Shape(state::ApplyRuleShape<AdadeltaRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc(
        "accum = rho * accum + (1 - rho) * grad * grad; update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) "
        "* grad; "
        "accum_update = rho * accum_update + (1 - rho) * update * update; var -= lr * update");

TROUPE_OP("ResourceApplyAdadelta")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("accum_update: resource")
    .Input("lr: T")
    .Input("rho: T")
    .Input("epsilon: T")
    .Input("grad: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Stateful()
    .Shape(state::ApplyRuleShape<AdadeltaRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyAdadelta of variables that are named by handles.");

TROUPE_KERNEL("ApplyAdadelta").Device("CPU").Class<state::ApplyKernel<AdadeltaRule>>();
TROUPE_KERNEL("ResourceApplyAdadelta").Device("CPU").Class<state::ApplyKernel<AdadeltaRule>>();

}  // namespace
}  // namespace troupe
