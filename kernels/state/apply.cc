// One step of an optimizer: the Apply ops, which name the variable and its slots by reference, and
// their Resource forms, which name them by handle. Their kernel and shape function are those of
// optimizer_op.h, the rules those of optimizer_rules.h; here stand the two definitions of each.
#include <string_view>

#include "kernels/state/optimizer_rules.h"

namespace troupe::state {
namespace {

// The definition of an update by Rule, without doc.
template <class Rule>
OpBuilder RefOp(std::string_view name) {
  OpBuilder op(name);
  AddRuleInputs<Rule>(&op, /*ref=*/true, /*sparse=*/false);
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
  AddRuleInputs<Rule>(&op, /*ref=*/false, /*sparse=*/false);
  return op.Attr("T: numbertype")
      .Attr("use_locking: bool = false")
      .Stateful()
      .Shape(ApplyRuleShape<Rule>)
      .NotDifferentiable(kNoGradientOfApply)
      .Doc(StrCat(of, " of variables that are named by handles."));
}

const OpRegistrar apply_gradient_descent =
    RefOp<GradientDescentRule>("ApplyGradientDescent").Doc("var -= alpha * delta");

const OpRegistrar resource_apply_gradient_descent = HandleOp<GradientDescentRule>("ApplyGradientDescent");

TROUPE_KERNEL("ApplyGradientDescent").Device("CPU").Class<ApplyKernel<GradientDescentRule>>();
TROUPE_KERNEL("ResourceApplyGradientDescent").Device("CPU").Class<ApplyKernel<GradientDescentRule>>();

const OpRegistrar apply_momentum = RefOp<MomentumRule>("ApplyMomentum")
                                       .Attr("use_nesterov: bool = false")
                                       .Doc(
                                           "accum = accum * momentum + grad; var -= lr * accum, or with use_nesterov: "
                                           "var -= lr * (grad + momentum * accum)");

const OpRegistrar resource_apply_momentum = HandleOp<MomentumRule>("ApplyMomentum").Attr("use_nesterov: bool = false");

TROUPE_KERNEL("ApplyMomentum").Device("CPU").Class<ApplyKernel<MomentumRule>>();
TROUPE_KERNEL("ResourceApplyMomentum").Device("CPU").Class<ApplyKernel<MomentumRule>>();

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

const OpRegistrar apply_adagrad = RefOp<AdagradRule>("ApplyAdagrad")
                                      .Attr("update_slots: bool = true")
                                      .Doc("accum += grad * grad (with update_slots); var -= lr * grad / sqrt(accum)");

const OpRegistrar resource_apply_adagrad = HandleOp<AdagradRule>("ApplyAdagrad").Attr("update_slots: bool = true");

TROUPE_KERNEL("ApplyAdagrad").Device("CPU").Class<ApplyKernel<AdagradRule>>();
TROUPE_KERNEL("ResourceApplyAdagrad").Device("CPU").Class<ApplyKernel<AdagradRule>>();

const OpRegistrar apply_adagrad_v2 =
    RefOp<AdagradV2Rule>("ApplyAdagradV2")
        .Attr("update_slots: bool = true")
        .Doc("accum += grad * grad (with update_slots); var -= lr * grad / (sqrt(accum) + epsilon)");

const OpRegistrar resource_apply_adagrad_v2 =
    HandleOp<AdagradV2Rule>("ApplyAdagradV2").Attr("update_slots: bool = true");

TROUPE_KERNEL("ApplyAdagradV2").Device("CPU").Class<ApplyKernel<AdagradV2Rule>>();
TROUPE_KERNEL("ResourceApplyAdagradV2").Device("CPU").Class<ApplyKernel<AdagradV2Rule>>();

const OpRegistrar apply_rms_prop =
    RefOp<RMSPropRule>("ApplyRMSProp")
        .Doc("ms += (1 - rho) * (grad * grad - ms); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom");

const OpRegistrar resource_apply_rms_prop = HandleOp<RMSPropRule>("ApplyRMSProp");

TROUPE_KERNEL("ApplyRMSProp").Device("CPU").Class<ApplyKernel<RMSPropRule>>();
TROUPE_KERNEL("ResourceApplyRMSProp").Device("CPU").Class<ApplyKernel<RMSPropRule>>();

const OpRegistrar apply_centered_rms_prop =
    RefOp<CenteredRMSPropRule>("ApplyCenteredRMSProp")
        .Doc(
            "ms += (1 - rho) * (grad * grad - ms); mg += (1 - rho) * (grad - mg); mom = momentum * mom + lr * grad / "
            "sqrt(ms - mg * mg + epsilon); var -= mom");

const OpRegistrar resource_apply_centered_rms_prop = HandleOp<CenteredRMSPropRule>("ApplyCenteredRMSProp");

TROUPE_KERNEL("ApplyCenteredRMSProp").Device("CPU").Class<ApplyKernel<CenteredRMSPropRule>>();
TROUPE_KERNEL("ResourceApplyCenteredRMSProp").Device("CPU").Class<ApplyKernel<CenteredRMSPropRule>>();

const OpRegistrar apply_adadelta =
    RefOp<AdadeltaRule>("ApplyAdadelta")
        .Doc(
            "accum = rho * accum + (1 - rho) * grad * grad; update = sqrt(accum_update + epsilon) / sqrt(accum + "
            "epsilon) * grad; accum_update = rho * accum_update + (1 - rho) * update * update; var -= lr * update");

const OpRegistrar resource_apply_adadelta = HandleOp<AdadeltaRule>("ApplyAdadelta");

TROUPE_KERNEL("ApplyAdadelta").Device("CPU").Class<ApplyKernel<AdadeltaRule>>();
TROUPE_KERNEL("ResourceApplyAdadelta").Device("CPU").Class<ApplyKernel<AdadeltaRule>>();

const OpRegistrar apply_ftrl =
    RefOp<FtrlRule>("ApplyFtrl")
        .Attr("multiply_linear_by_lr: bool = false")
        .Doc(
            "g = grad; linear += g - (new^-lr_power - accum^-lr_power) / lr * var with new = accum + grad * grad; var "
            "= |linear| > l1 ? (sign(linear) * l1 - linear) / (new^-lr_power / lr + 2 * l2) : 0; accum = new");

const OpRegistrar resource_apply_ftrl = HandleOp<FtrlRule>("ApplyFtrl").Attr("multiply_linear_by_lr: bool = false");

TROUPE_KERNEL("ApplyFtrl").Device("CPU").Class<ApplyKernel<FtrlRule>>();
TROUPE_KERNEL("ResourceApplyFtrl").Device("CPU").Class<ApplyKernel<FtrlRule>>();

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

const OpRegistrar apply_proximal_gradient_descent =
    RefOp<ProximalGradientDescentRule>("ApplyProximalGradientDescent")
        .Doc("x = var - alpha * delta; var = sign(x) * max(|x| - alpha * l1, 0) / (1 + alpha * l2)");

const OpRegistrar resource_apply_proximal_gradient_descent =
    HandleOp<ProximalGradientDescentRule>("ApplyProximalGradientDescent");

TROUPE_KERNEL("ApplyProximalGradientDescent").Device("CPU").Class<ApplyKernel<ProximalGradientDescentRule>>();
TROUPE_KERNEL("ResourceApplyProximalGradientDescent").Device("CPU").Class<ApplyKernel<ProximalGradientDescentRule>>();

const OpRegistrar apply_proximal_adagrad =
    RefOp<ProximalAdagradRule>("ApplyProximalAdagrad")
        .Doc(
            "accum += grad * grad; rate = lr / sqrt(accum); x = var - rate * grad; var = sign(x) * max(|x| - rate * "
            "l1, 0) / (1 + rate * l2)");

const OpRegistrar resource_apply_proximal_adagrad = HandleOp<ProximalAdagradRule>("ApplyProximalAdagrad");

TROUPE_KERNEL("ApplyProximalAdagrad").Device("CPU").Class<ApplyKernel<ProximalAdagradRule>>();
TROUPE_KERNEL("ResourceApplyProximalAdagrad").Device("CPU").Class<ApplyKernel<ProximalAdagradRule>>();

const OpRegistrar apply_adagrad_da =
    RefOp<AdagradDARule>("ApplyAdagradDA")
        .Doc(
            "gradient_accumulator += grad; gradient_squared_accumulator += grad * grad; x = gradient_accumulator; var "
            "= -lr * sign(x) * max(|x| - l1 * global_step, 0) / (l2 * global_step * lr + "
            "sqrt(gradient_squared_accumulator))");

const OpRegistrar resource_apply_adagrad_da = HandleOp<AdagradDARule>("ApplyAdagradDA");

TROUPE_KERNEL("ApplyAdagradDA").Device("CPU").Class<ApplyKernel<AdagradDARule>>();
TROUPE_KERNEL("ResourceApplyAdagradDA").Device("CPU").Class<ApplyKernel<AdagradDARule>>();

}  // namespace
}  // namespace troupe::state
