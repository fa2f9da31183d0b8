// One step of an optimizer: the Apply ops, which name the variable and its slots by reference, and
// their Resource forms, which name them by handle. Their kernel and shape function are those of
// optimizer_op.h; here stand the rules, each with its two definitions.
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kernels/state/optimizer_op.h"
#include "troupe/half.h"

namespace troupe::state {
namespace {

// The definition of an update by Rule, without doc.
template <class Rule>
OpBuilder RefOp(std::string_view name) {
  OpBuilder op(name);
  for (int i = 0; i < static_cast<int>(Rule::kInputs.size()); ++i) {
    op.Input(StrCat(Rule::kInputs[i], i < Rule::kSlots ? ": Ref(T)" : ": T"));
  }
  return op.Output("out: Ref(T)")
      .Attr("T: numbertype")
      .Attr("use_locking: bool = false")
      .Shape(ApplyRuleShape<Rule>)
      .NotDifferentiable(kNoGradientOfApply);
}
// The Resource form of the op `of`.
template <class Rule>
OpBuilder HandleOp(std::string_view of) {
  OpBuilder op(StrCat("Resource", of));
  for (int i = 0; i < static_cast<int>(Rule::kInputs.size()); ++i) {
    op.Input(StrCat(Rule::kInputs[i], i < Rule::kSlots ? ": resource" : ": T"));
  }
  return op.Attr("T: numbertype")
      .Attr("use_locking: bool = false")
      .Stateful()
      .Shape(ApplyRuleShape<Rule>)
      .NotDifferentiable(kNoGradientOfApply)
      .Doc(StrCat(of, " of variables that are named by handles."));
}

struct GradientDescentRule {
  static constexpr std::array kInputs = {"var", "alpha", "delta"};
  static constexpr int kSlots = 1, kGrad = 2;
  static constexpr std::initializer_list<int> kScalars = {1};
  explicit GradientDescentRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().gradient_descent(s[0], grad, Scalar<T>(ctx, 1), n);
  }
};

const OpRegistrar apply_gradient_descent =
    RefOp<GradientDescentRule>("ApplyGradientDescent").Doc("var -= alpha * delta");

const OpRegistrar resource_apply_gradient_descent = HandleOp<GradientDescentRule>("ApplyGradientDescent");

TROUPE_KERNEL("ApplyGradientDescent").Device("CPU").Class<ApplyKernel<GradientDescentRule>>();
TROUPE_KERNEL("ResourceApplyGradientDescent").Device("CPU").Class<ApplyKernel<GradientDescentRule>>();

struct MomentumRule {
  static constexpr std::array kInputs = {"var", "accum", "lr", "grad", "momentum"};
  static constexpr int kSlots = 2, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {2, 4};
  explicit MomentumRule(KernelInit& init) : nesterov(init.Attr<bool>("use_nesterov")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().momentum(s[0], s[1], grad, Scalar<T>(ctx, 2), Scalar<T>(ctx, 4), nesterov, n);
  }
  const bool nesterov;
};

const OpRegistrar apply_momentum = RefOp<MomentumRule>("ApplyMomentum")
                                       .Attr("use_nesterov: bool = false")
                                       .Doc(
                                           "accum = accum * momentum + grad; var -= lr * accum, or with use_nesterov: "
                                           "var -= lr * (grad + momentum * accum)");

const OpRegistrar resource_apply_momentum = HandleOp<MomentumRule>("ApplyMomentum").Attr("use_nesterov: bool = false");

TROUPE_KERNEL("ApplyMomentum").Device("CPU").Class<ApplyKernel<MomentumRule>>();
TROUPE_KERNEL("ResourceApplyMomentum").Device("CPU").Class<ApplyKernel<MomentumRule>>();

struct AdamRule {
  static constexpr std::array kInputs = {"var", "m",     "v",     "beta1_power", "beta2_power",
                                         "lr",  "beta1", "beta2", "epsilon",     "grad"};
  static constexpr int kSlots = 3, kGrad = 9;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5, 6, 7, 8};
  explicit AdamRule(KernelInit& init) : nesterov(init.Attr<bool>("use_nesterov")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    const T alpha = Scalar<T>(ctx, 5) * Root(T(1) - Scalar<T>(ctx, 4)) / (T(1) - Scalar<T>(ctx, 3));
    Loops<T>().adam(s[0], s[1], s[2], grad, alpha, Scalar<T>(ctx, 6), Scalar<T>(ctx, 7), Scalar<T>(ctx, 8), nesterov,
                    n);
  }
  template <class T>
  static T Root(T x) {
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return T(std::sqrt(static_cast<float>(x)));
    } else {
      return std::sqrt(x);
    }
  }
  const bool nesterov;
};

const OpRegistrar apply_adam =
    RefOp<AdamRule>("ApplyAdam")
        .Attr("use_nesterov: bool = false")
        .Doc(
            "lr_t = lr * sqrt(1 - beta2_power) / (1 - beta1_power); m += (1 - beta1) * (grad - m); v += (1 - beta2) * "
            "(grad * grad - v); var -= lr_t * m / (sqrt(v) + epsilon), with use_nesterov: lr_t * (m * beta1 + (1 - "
            "beta1) * grad) in place of lr_t * m");

const OpRegistrar resource_apply_adam = HandleOp<AdamRule>("ApplyAdam").Attr("use_nesterov: bool = false");

TROUPE_KERNEL("ApplyAdam").Device("CPU").Class<ApplyKernel<AdamRule>>();
TROUPE_KERNEL("ResourceApplyAdam").Device("CPU").Class<ApplyKernel<AdamRule>>();

struct AdagradRule {
  static constexpr std::array kInputs = {"var", "accum", "lr", "grad"};
  static constexpr int kSlots = 2, kGrad = 3;
  static constexpr std::initializer_list<int> kScalars = {2};
  explicit AdagradRule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adagrad(s[0], s[1], grad, Scalar<T>(ctx, 2), update_slots, n);
  }
  const bool update_slots;
};

const OpRegistrar apply_adagrad = RefOp<AdagradRule>("ApplyAdagrad")
                                      .Attr("update_slots: bool = true")
                                      .Doc("accum += grad * grad (with update_slots); var -= lr * grad / sqrt(accum)");

const OpRegistrar resource_apply_adagrad = HandleOp<AdagradRule>("ApplyAdagrad").Attr("update_slots: bool = true");

TROUPE_KERNEL("ApplyAdagrad").Device("CPU").Class<ApplyKernel<AdagradRule>>();
TROUPE_KERNEL("ResourceApplyAdagrad").Device("CPU").Class<ApplyKernel<AdagradRule>>();

struct AdagradV2Rule {
  static constexpr std::array kInputs = {"var", "accum", "lr", "epsilon", "grad"};
  static constexpr int kSlots = 2, kGrad = 4;
  static constexpr std::initializer_list<int> kScalars = {2, 3};
  explicit AdagradV2Rule(KernelInit& init) : update_slots(init.Attr<bool>("update_slots")) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adagrad_v2(s[0], s[1], grad, Scalar<T>(ctx, 2), Scalar<T>(ctx, 3), update_slots, n);
  }
  const bool update_slots;
};

const OpRegistrar apply_adagrad_v2 =
    RefOp<AdagradV2Rule>("ApplyAdagradV2")
        .Attr("update_slots: bool = true")
        .Doc("accum += grad * grad (with update_slots); var -= lr * grad / (sqrt(accum) + epsilon)");

const OpRegistrar resource_apply_adagrad_v2 =
    HandleOp<AdagradV2Rule>("ApplyAdagradV2").Attr("update_slots: bool = true");

TROUPE_KERNEL("ApplyAdagradV2").Device("CPU").Class<ApplyKernel<AdagradV2Rule>>();
TROUPE_KERNEL("ResourceApplyAdagradV2").Device("CPU").Class<ApplyKernel<AdagradV2Rule>>();

struct RMSPropRule {
  static constexpr std::array kInputs = {"var", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"};
  static constexpr int kSlots = 3, kGrad = 7;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5, 6};
  explicit RMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().rms_prop(s[0], s[1], s[2], grad, Scalar<T>(ctx, 3), Scalar<T>(ctx, 4), Scalar<T>(ctx, 5),
                        Scalar<T>(ctx, 6), n);
  }
};

const OpRegistrar apply_rms_prop =
    RefOp<RMSPropRule>("ApplyRMSProp")
        .Doc("ms += (1 - rho) * (grad * grad - ms); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom");

const OpRegistrar resource_apply_rms_prop = HandleOp<RMSPropRule>("ApplyRMSProp");

TROUPE_KERNEL("ApplyRMSProp").Device("CPU").Class<ApplyKernel<RMSPropRule>>();
TROUPE_KERNEL("ResourceApplyRMSProp").Device("CPU").Class<ApplyKernel<RMSPropRule>>();

struct CenteredRMSPropRule {
  static constexpr std::array kInputs = {"var", "mg", "ms", "mom", "lr", "rho", "momentum", "epsilon", "grad"};
  static constexpr int kSlots = 4, kGrad = 8;
  static constexpr std::initializer_list<int> kScalars = {4, 5, 6, 7};
  explicit CenteredRMSPropRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().centered_rms_prop(s[0], s[1], s[2], s[3], grad, Scalar<T>(ctx, 4), Scalar<T>(ctx, 5), Scalar<T>(ctx, 6),
                                 Scalar<T>(ctx, 7), n);
  }
};

const OpRegistrar apply_centered_rms_prop =
    RefOp<CenteredRMSPropRule>("ApplyCenteredRMSProp")
        .Doc(
            "ms += (1 - rho) * (grad * grad - ms); mg += (1 - rho) * (grad - mg); mom = momentum * mom + lr * grad / "
            "sqrt(ms - mg * mg + epsilon); var -= mom");

const OpRegistrar resource_apply_centered_rms_prop = HandleOp<CenteredRMSPropRule>("ApplyCenteredRMSProp");

TROUPE_KERNEL("ApplyCenteredRMSProp").Device("CPU").Class<ApplyKernel<CenteredRMSPropRule>>();
TROUPE_KERNEL("ResourceApplyCenteredRMSProp").Device("CPU").Class<ApplyKernel<CenteredRMSPropRule>>();

struct AdadeltaRule {
  static constexpr std::array kInputs = {"var", "accum", "accum_update", "lr", "rho", "epsilon", "grad"};
  static constexpr int kSlots = 3, kGrad = 6;
  static constexpr std::initializer_list<int> kScalars = {3, 4, 5};
  explicit AdadeltaRule(KernelInit&) {}
  template <class T>
  void Run(const KernelContext& ctx, T* const* s, const T* grad, int64_t n) const {
    Loops<T>().adadelta(s[0], s[1], s[2], grad, Scalar<T>(ctx, 3), Scalar<T>(ctx, 4), Scalar<T>(ctx, 5), n);
  }
};

const OpRegistrar apply_adadelta =
    RefOp<AdadeltaRule>("ApplyAdadelta")
        .Doc(
            "accum = rho * accum + (1 - rho) * grad * grad; update = sqrt(accum_update + epsilon) / sqrt(accum + "
            "epsilon) * grad; accum_update = rho * accum_update + (1 - rho) * update * update; var -= lr * update");

const OpRegistrar resource_apply_adadelta = HandleOp<AdadeltaRule>("ApplyAdadelta");

TROUPE_KERNEL("ApplyAdadelta").Device("CPU").Class<ApplyKernel<AdadeltaRule>>();
TROUPE_KERNEL("ResourceApplyAdadelta").Device("CPU").Class<ApplyKernel<AdadeltaRule>>();

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
  static constexpr std::array kInputs = {"var", "accum", "linear", "grad", "lr", "l1", "l2", "lr_power"};
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

const OpRegistrar apply_ftrl =
    RefOp<FtrlRule>("ApplyFtrl")
        .Attr("multiply_linear_by_lr: bool = false")
        .Doc(
            "g = grad; linear += g - (new^-lr_power - accum^-lr_power) / lr * var with new = accum + grad * grad; var "
            "= |linear| > l1 ? (sign(linear) * l1 - linear) / (new^-lr_power / lr + 2 * l2) : 0; accum = new");

const OpRegistrar resource_apply_ftrl = HandleOp<FtrlRule>("ApplyFtrl").Attr("multiply_linear_by_lr: bool = false");

TROUPE_KERNEL("ApplyFtrl").Device("CPU").Class<ApplyKernel<FtrlRule>>();
TROUPE_KERNEL("ResourceApplyFtrl").Device("CPU").Class<ApplyKernel<FtrlRule>>();

struct FtrlV2Rule {
  static constexpr std::array kInputs = {"var", "accum", "linear",       "grad",    "lr",
                                         "l1",  "l2",    "l2_shrinkage", "lr_power"};
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

const OpRegistrar apply_ftrl_v2 =
    RefOp<FtrlV2Rule>("ApplyFtrlV2")
        .Attr("multiply_linear_by_lr: bool = false")
        .Doc(
            "g = grad + 2 * l2_shrinkage * var; linear += g - (new^-lr_power - accum^-lr_power) / lr * var with new = "
            "accum + grad * grad; var = |linear| > l1 ? (sign(linear) * l1 - linear) / (new^-lr_power / lr + 2 * l2) : "
            "0; accum = new");

const OpRegistrar resource_apply_ftrl_v2 =
    HandleOp<FtrlV2Rule>("ApplyFtrlV2").Attr("multiply_linear_by_lr: bool = false");

TROUPE_KERNEL("ApplyFtrlV2").Device("CPU").Class<ApplyKernel<FtrlV2Rule>>();
TROUPE_KERNEL("ResourceApplyFtrlV2").Device("CPU").Class<ApplyKernel<FtrlV2Rule>>();

}  // namespace
}  // namespace troupe::state
