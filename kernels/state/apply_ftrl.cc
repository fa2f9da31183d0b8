// A step of FTRL-proximal: ApplyFtrl, ApplyFtrlV2 (with shrinkage) and their Resource forms.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/state/optimizer_op.h"
#include "troupe/half.h"

namespace troupe::state {
namespace {

template <class T>
struct FtrlParameters {
  T lr, l1, l2, l2_shrinkage, lr_power;
};

// `by_lr`: `linear` holds lr times the sum, so that lr may change between steps.
template <class T>
void FtrlLoop(T* var, T* accum, T* linear, const T* grad, const FtrlParameters<T>& p, bool by_lr, int64_t n) {
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const Wide lr = p.lr, l1 = p.l1, l2 = p.l2, shrinkage = p.l2_shrinkage, power = p.lr_power;
  const bool root = power == Wide(-0.5);
  const auto raise = [&](Wide x) { return root ? std::sqrt(x) : std::pow(x, -power); };
  // With `by_lr`, everything is multiplied by lr instead of divided.
  const Wide scale = by_lr ? lr : Wide(1), divisor = by_lr ? Wide(1) : lr, bound = l1 * scale;
  for (int64_t i = 0; i < n; ++i) {
    const Wide g = grad[i], before = accum[i], v = var[i], now = before + g * g;
    const Wide pulled = g + 2 * shrinkage * v;
    const Wide z = static_cast<Wide>(linear[i]) + (pulled * scale - (raise(now) - raise(before)) / divisor * v);
    linear[i] = T(z);
    const Wide x = (z > 0 ? bound : z < 0 ? -bound : Wide(0)) - z;
    var[i] = std::abs(z) > bound ? T(x / (raise(now) / divisor + 2 * l2 * scale)) : T(0);
    accum[i] = T(now);
  }
}

struct FtrlRule {
  static constexpr int kSlots = 3, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  static constexpr bool kRealOnly = true;
  explicit FtrlRule(KernelInit& init) : by_lr(init.Attr<bool>("multiply_linear_by_lr")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    FtrlLoop<T>(s[0], s[1], s[2], grad,
                {Scalar<T>(ctx, 4), Scalar<T>(ctx, 5), Scalar<T>(ctx, 6), T(0), Scalar<T>(ctx, 7)}, by_lr, n);
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
    .Shape(ApplyRuleShape<FtrlRule>)
    .NotDifferentiable(kNoGradientOfApply)
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
    .Shape(ApplyRuleShape<FtrlRule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("ApplyFtrl of variables that are named by handles.");

TROUPE_KERNEL("ApplyFtrl").Device("CPU").Class<ApplyKernel<FtrlRule>>();
TROUPE_KERNEL("ResourceApplyFtrl").Device("CPU").Class<ApplyKernel<FtrlRule>>();

struct FtrlV2Rule {
  static constexpr int kSlots = 3, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7, 8};
  static constexpr bool kRealOnly = true;
  explicit FtrlV2Rule(KernelInit& init) : by_lr(init.Attr<bool>("multiply_linear_by_lr")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    FtrlLoop<T>(s[0], s[1], s[2], grad,
                {Scalar<T>(ctx, 4), Scalar<T>(ctx, 5), Scalar<T>(ctx, 6), Scalar<T>(ctx, 7), Scalar<T>(ctx, 8)}, by_lr,
                n);
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
    .Shape(ApplyRuleShape<FtrlV2Rule>)
    .NotDifferentiable(kNoGradientOfApply)
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
    .Shape(ApplyRuleShape<FtrlV2Rule>)
    .NotDifferentiable(kNoGradientOfApply)
    .Doc("ApplyFtrlV2 of variables that are named by handles.");

TROUPE_KERNEL("ApplyFtrlV2").Device("CPU").Class<ApplyKernel<FtrlV2Rule>>();
TROUPE_KERNEL("ResourceApplyFtrlV2").Device("CPU").Class<ApplyKernel<FtrlV2Rule>>();

}  // namespace
}  // namespace troupe::state
