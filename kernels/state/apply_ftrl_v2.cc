// ApplyFtrlV2, ResourceApplyFtrlV2: a step of FTRL-proximal with shrinkage.
#include "kernels/state/ftrl_loop.h"
#include "kernels/state/optimizer_op.h"

namespace troupe {
namespace {

struct FtrlV2Rule {
  static constexpr int kSlots = 3, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7, 8};
  static constexpr bool kRealOnly = true;
  explicit FtrlV2Rule(KernelInit& init) : by_lr(init.Attr<bool>("multiply_linear_by_lr")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    state::FtrlLoop<T>(s[0], s[1], s[2], grad,
                       {state::Scalar<T>(ctx, 4), state::Scalar<T>(ctx, 5), state::Scalar<T>(ctx, 6),
                        state::Scalar<T>(ctx, 7), state::Scalar<T>(ctx, 8)},
                       by_lr, n);
  }
  const bool by_lr;
};

TROUPE_OP("ApplyFtrlV2")
    .Input("var: Ref(T)")
    .Input("accum: Ref(T)")
    .Input("linear: Ref(T)")
    .Input("grad: T")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("l2_shrinkage: T")
    .Input("lr_power: T")
    .Output("out: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("multiply_linear_by_lr: bool = false")
    .Shape(state::ApplyRuleShape<FtrlV2Rule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc(
        "g = grad + 2 * l2_shrinkage * var; linear += g - (new^-lr_power - accum^-lr_power) / lr * var with new = "
        "accum + grad * grad; "
        "var = |linear| > l1 ? (sign(linear) * l1 - linear) / (new^-lr_power / lr + 2 * l2) : 0; accum = new");

TROUPE_OP("ResourceApplyFtrlV2")
    .Input("var: resource")
    .Input("accum: resource")
    .Input("linear: resource")
    .Input("grad: T")
    .Input("lr: T")
    .Input("l1: T")
    .Input("l2: T")
    .Input("l2_shrinkage: T")
    .Input("lr_power: T")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Attr("multiply_linear_by_lr: bool = false")
    .Stateful()
    .Shape(state::ApplyRuleShape<FtrlV2Rule>)
    .NotDifferentiable(state::kNoGradientOfApply)
    .Doc("ApplyFtrlV2 of variables that are named by handles.");

TROUPE_KERNEL("ApplyFtrlV2").Device("CPU").Class<state::ApplyKernel<FtrlV2Rule>>();
TROUPE_KERNEL("ResourceApplyFtrlV2").Device("CPU").Class<state::ApplyKernel<FtrlV2Rule>>();

}  // namespace
}  // namespace troupe
