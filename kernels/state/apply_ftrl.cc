// ApplyFtrl, ResourceApplyFtrl: a step of FTRL-proximal.
#include "kernels/state/ftrl_loop.h"
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct FtrlRule {
  static constexpr int kSlots = 3, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  static constexpr bool kRealOnly = true;
  explicit FtrlRule(KernelInit& init) : by_lr(init.Attr<bool>("multiply_linear_by_lr")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::FtrlLoop<T>(
        s[0], s[1], s[2], grad,
        {state::Scalar<T>(ctx, 4), state::Scalar<T>(ctx, 5), state::Scalar<T>(ctx, 6), T(0), state::Scalar<T>(ctx, 7)},
        by_lr, n);
  }
  const bool by_lr;
};

TROUPE_OP("ApplyFtrl")
    .Input("var: Ref(T)")
    .Input("accum: Ref(T)")
    .Input("linear: Ref(T)")
    .Input("grad: T")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("lr_power: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("multiply_linear_by_lr: bool = false")
    .Shape(state::ApplyRuleShape<FtrlRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc(
        "g = grad; linear += g - (new^-lr_power - accum^-lr_power) / lr * var with new = accum + grad * grad; "
        "var = |linear| > l1 ? (sign(linear) * l1 - linear) / (new^-lr_power / lr + 2 * l2) : 0; accum = new");

TROUPE_OP("ResourceApplyFtrl")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("linear: resource")
    .Input("grad: T")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("lr_power: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("multiply_linear_by_lr: bool = false")
    .Stateful()
    .Shape(state::ApplyRuleShape<FtrlRule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyFtrl of variables that are named by handles.");

TROUPE_KERNEL("ApplyFtrl").Device("CPU").Class<state::ApplyKernel<FtrlRule>>();
TROUPE_KERNEL("ResourceApplyFtrl").Device("CPU").Class<state::ApplyKernel<FtrlRule>>();

}  // namespace
}  // namespace troupe
