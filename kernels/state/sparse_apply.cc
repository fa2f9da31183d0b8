// One step of an optimizer for some rows of the variable and its slots: the SparseApply ops, and
// their Resource forms. Row indices[i] is updated by grad[i], as the Apply op of the same rule
// (apply.cc) updates a whole variable; the other rows stay as they are. A row that is named more
// than once is updated more than once, in the order of the indices: optimizers sum the gradients of
// one row first.
#include <string_view>

#include "kernels/state/optimizer_rules.h"
#include "kernels/state/scatter_rows.h"

namespace troupe::state {
namespace {

template <class Rule>
absl::Status SparseShape(InferenceContext& c) {
  PartialTensorShape var = NamedShape(c);
  for (int i = 1; i < Rule::kSlots; ++i) {
    TROUPE_ASSIGN_OR_RETURN(var, var.MergeWith(NamedShape(c, i)));
  }
  for (int i : Rule::kScalars) TROUPE_RETURN_IF_ERROR(c.WithRank(i > Rule::kGrad ? i + 1 : i, 0).status());
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape indices, c.WithRank(Rule::kGrad + 1, 1));
  if (var.known_rank()) {
    if (var.rank() < 1) return InvalidArgument("the variable must have at least one dimension, but is a scalar");
    PartialTensorShape rows = var;
    rows.set_dim(0, indices.dim(0));
    TROUPE_RETURN_IF_ERROR(rows.MergeWith(c.input(Rule::kGrad)).status());
  }
  if (c.num_outputs() > 0) c.set_output(0, std::move(var));
  return absl::OkStatus();
}

template <class Rule>
OpBuilder RefOp(std::string_view of) {
  OpBuilder op(StrCat("Sparse", of));
  AddRuleInputs<Rule>(&op, /*ref=*/true, /*sparse=*/true);
  return op.Output("out: Ref(T)")
      .Attr("T: numbertype")
      .Attr("Tindices: {int32, int64}")
      .Attr("use_locking: bool = false")
      .Shape(SparseShape<Rule>)
      .NotDifferentiable(kNoGradientOfApply)
      .Doc(StrCat("What ", of, " does, for each i with row indices[i] of the variables and row i of the gradient."));
}
template <class Rule>
OpBuilder HandleOp(std::string_view of) {
  OpBuilder op(StrCat("ResourceSparse", of));
  AddRuleInputs<Rule>(&op, /*ref=*/false, /*sparse=*/true);
  return op.Attr("T: numbertype")
      .Attr("Tindices: {int32, int64}")
      .Attr("use_locking: bool = false")
      .Stateful()
      .Shape(SparseShape<Rule>)
      .NotDifferentiable(kNoGradientOfApply)
      .Doc(StrCat("Sparse", of, " of variables that are named by handles."));
}

template <class Rule>
class SparseApplyKernel {
 public:
  explicit SparseApplyKernel(KernelInit& init) : rule_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor &grad = ctx.input(Rule::kGrad), &indices = ctx.input(Rule::kGrad + 1);
    VariableUpdate slots(ctx);
    TROUPE_RETURN_IF_ERROR(BeginApply(ctx, Rule::kSlots, grad.dtype(), &slots));
    for (int i : Rule::kScalars) TROUPE_RETURN_IF_ERROR(CheckScalar(ctx, i > Rule::kGrad ? i + 1 : i));
    const Tensor& var = slots.value(0);
    TROUPE_RETURN_IF_ERROR(CheckRowGradients(ctx, Rule::kGrad, var));
    TROUPE_ASSIGN_OR_RETURN(const std::vector<int64_t> rows, CheckedRows(indices, var.dim(0)));
    TROUPE_RETURN_IF_ERROR(
        VisitRuleType<Rule>(grad.dtype(), [&]<class T>() -> absl::Status { return Run<T>(ctx, slots, grad, rows); }));
    if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  template <class T>
  absl::Status Run(KernelContext& ctx, VariableUpdate& slots, const Tensor& grad, const std::vector<int64_t>& rows) {
    const TensorShape shape = slots.value(0).shape();
    int64_t n = 1;
    for (int d = 1; d < shape.rank(); ++d) n *= shape.dim(d);
    const T* const g = grad.data<T>();
    const RuleInputs in(ctx, Rule::kGrad);
    TROUPE_RETURN_IF_ERROR(slots.Write());
    T* base[Rule::kSlots];
    for (int k = 0; k < Rule::kSlots; ++k) base[k] = slots.value(k).template data<T>();
    const double each = 20 + 0.4 * (1 + Rule::kSlots) * static_cast<double>(n);
    ForEachRow(ctx, shape.dim(0), rows, each, [&](int64_t i, int64_t row) {
      T* at[Rule::kSlots];
      for (int k = 0; k < Rule::kSlots; ++k) at[k] = base[k] + row * n;
      rule_.template Run<T>(in, at, g + i * n, n);
    });
    return slots.Commit();
  }
  const Rule rule_;
};

const OpRegistrar adagrad = RefOp<AdagradRule>("ApplyAdagrad").Attr("update_slots: bool = true");
const OpRegistrar resource_adagrad = HandleOp<AdagradRule>("ApplyAdagrad").Attr("update_slots: bool = true");
TROUPE_KERNEL("SparseApplyAdagrad").Device("CPU").Class<SparseApplyKernel<AdagradRule>>();
TROUPE_KERNEL("ResourceSparseApplyAdagrad").Device("CPU").Class<SparseApplyKernel<AdagradRule>>();

const OpRegistrar adagrad_v2 = RefOp<AdagradV2Rule>("ApplyAdagradV2").Attr("update_slots: bool = true");
const OpRegistrar resource_adagrad_v2 = HandleOp<AdagradV2Rule>("ApplyAdagradV2").Attr("update_slots: bool = true");
TROUPE_KERNEL("SparseApplyAdagradV2").Device("CPU").Class<SparseApplyKernel<AdagradV2Rule>>();
TROUPE_KERNEL("ResourceSparseApplyAdagradV2").Device("CPU").Class<SparseApplyKernel<AdagradV2Rule>>();

const OpRegistrar adagrad_da = RefOp<AdagradDARule>("ApplyAdagradDA");
const OpRegistrar resource_adagrad_da = HandleOp<AdagradDARule>("ApplyAdagradDA");
TROUPE_KERNEL("SparseApplyAdagradDA").Device("CPU").Class<SparseApplyKernel<AdagradDARule>>();
TROUPE_KERNEL("ResourceSparseApplyAdagradDA").Device("CPU").Class<SparseApplyKernel<AdagradDARule>>();

const OpRegistrar adadelta = RefOp<AdadeltaRule>("ApplyAdadelta");
const OpRegistrar resource_adadelta = HandleOp<AdadeltaRule>("ApplyAdadelta");
TROUPE_KERNEL("SparseApplyAdadelta").Device("CPU").Class<SparseApplyKernel<AdadeltaRule>>();
TROUPE_KERNEL("ResourceSparseApplyAdadelta").Device("CPU").Class<SparseApplyKernel<AdadeltaRule>>();

const OpRegistrar momentum = RefOp<MomentumRule>("ApplyMomentum").Attr("use_nesterov: bool = false");
const OpRegistrar resource_momentum = HandleOp<MomentumRule>("ApplyMomentum").Attr("use_nesterov: bool = false");
TROUPE_KERNEL("SparseApplyMomentum").Device("CPU").Class<SparseApplyKernel<MomentumRule>>();
TROUPE_KERNEL("ResourceSparseApplyMomentum").Device("CPU").Class<SparseApplyKernel<MomentumRule>>();

const OpRegistrar rms_prop = RefOp<RMSPropRule>("ApplyRMSProp");
const OpRegistrar resource_rms_prop = HandleOp<RMSPropRule>("ApplyRMSProp");
TROUPE_KERNEL("SparseApplyRMSProp").Device("CPU").Class<SparseApplyKernel<RMSPropRule>>();
TROUPE_KERNEL("ResourceSparseApplyRMSProp").Device("CPU").Class<SparseApplyKernel<RMSPropRule>>();

const OpRegistrar centered_rms_prop = RefOp<CenteredRMSPropRule>("ApplyCenteredRMSProp");
const OpRegistrar resource_centered_rms_prop = HandleOp<CenteredRMSPropRule>("ApplyCenteredRMSProp");
TROUPE_KERNEL("SparseApplyCenteredRMSProp").Device("CPU").Class<SparseApplyKernel<CenteredRMSPropRule>>();
TROUPE_KERNEL("ResourceSparseApplyCenteredRMSProp").Device("CPU").Class<SparseApplyKernel<CenteredRMSPropRule>>();

const OpRegistrar ftrl = RefOp<FtrlRule>("ApplyFtrl").Attr("multiply_linear_by_lr: bool = false");
const OpRegistrar resource_ftrl = HandleOp<FtrlRule>("ApplyFtrl").Attr("multiply_linear_by_lr: bool = false");
TROUPE_KERNEL("SparseApplyFtrl").Device("CPU").Class<SparseApplyKernel<FtrlRule>>();
TROUPE_KERNEL("ResourceSparseApplyFtrl").Device("CPU").Class<SparseApplyKernel<FtrlRule>>();

const OpRegistrar ftrl_v2 = RefOp<FtrlV2Rule>("ApplyFtrlV2").Attr("multiply_linear_by_lr: bool = false");
const OpRegistrar resource_ftrl_v2 = HandleOp<FtrlV2Rule>("ApplyFtrlV2").Attr("multiply_linear_by_lr: bool = false");
TROUPE_KERNEL("SparseApplyFtrlV2").Device("CPU").Class<SparseApplyKernel<FtrlV2Rule>>();
TROUPE_KERNEL("ResourceSparseApplyFtrlV2").Device("CPU").Class<SparseApplyKernel<FtrlV2Rule>>();

const OpRegistrar proximal_gradient_descent = RefOp<ProximalGradientDescentRule>("ApplyProximalGradientDescent");
const OpRegistrar resource_proximal_gradient_descent =
    HandleOp<ProximalGradientDescentRule>("ApplyProximalGradientDescent");
TROUPE_KERNEL("SparseApplyProximalGradientDescent")
    .Device("CPU")
    .Class<SparseApplyKernel<ProximalGradientDescentRule>>();
TROUPE_KERNEL("ResourceSparseApplyProximalGradientDescent")
    .Device("CPU")
    .Class<SparseApplyKernel<ProximalGradientDescentRule>>();

const OpRegistrar proximal_adagrad = RefOp<ProximalAdagradRule>("ApplyProximalAdagrad");
const OpRegistrar resource_proximal_adagrad = HandleOp<ProximalAdagradRule>("ApplyProximalAdagrad");
TROUPE_KERNEL("SparseApplyProximalAdagrad").Device("CPU").Class<SparseApplyKernel<ProximalAdagradRule>>();
TROUPE_KERNEL("ResourceSparseApplyProximalAdagrad").Device("CPU").Class<SparseApplyKernel<ProximalAdagradRule>>();

}  // namespace
}  // namespace troupe::state
