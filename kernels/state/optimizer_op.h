// What the Apply and SparseApply ops (one step of an optimizer) share.
//
// Inputs 0 .. kSlots-1 name the variable and its slots, by reference or by handle; the rest are
// values. The update has all of them to itself while it runs (variable_access.h); one with a
// snapshot out is copied first.
//
//   struct MomentumRule {
//     static constexpr int kSlots = 2, kGrad = 3;                    // accum; the gradient's input
//     static constexpr std::initializer_list<int> kScalars = {2, 4};
//     explicit MomentumRule(KernelInit& init);
//     template <class T> void Run(const RuleInputs& in, T* const* slots, const T* grad, int64_t n) const;
//   };
//
// Besides, a rule names its inputs (kInputs, see AddRuleInputs), and may be for real numbers only
// (kRealOnly). The sparse forms have the same inputs, and the indices of the rows behind the
// gradient.
//
// Thread rule: as for all kernels (troupe/kernel.h).
#ifndef TROUPE_KERNELS_STATE_OPTIMIZER_OP_H_
#define TROUPE_KERNELS_STATE_OPTIMIZER_OP_H_

#include <complex>
#include <limits>
#include <string>

#include "kernels/state/handle_shapes.h"
#include "kernels/state/optimizer_loops.h"
#include "kernels/state/variable_access.h"
#include "kernels/state/variable_owner.h"
#include "troupe/kernel.h"

namespace troupe::state {

inline constexpr char kNoGradientOfApply[] = "an update is not a value";

// Begins the update of the variables behind inputs 0 .. n-1, and checks that they have values of
// type `dtype` in the shape of the first.
absl::Status BeginApply(const KernelContext& ctx, int n, DType dtype, VariableUpdate* update);

// INVALID_ARGUMENT unless input i is a scalar.
absl::Status CheckScalar(const KernelContext& ctx, int i);
// INVALID_ARGUMENT unless input i has the shape of `var`.
absl::Status CheckGradient(const KernelContext& ctx, int i, const Tensor& var);
// INVALID_ARGUMENT unless input i has one row of `var` for each element of input i + 1, a vector.
absl::Status CheckRowGradients(const KernelContext& ctx, int i, const Tensor& var);

// The inputs of a rule, numbered as in its dense form.
class RuleInputs {
 public:
  // `indices_after`: the input behind which the indices of a sparse form stand.
  explicit RuleInputs(const KernelContext& ctx, int indices_after = std::numeric_limits<int>::max())
      : ctx_(ctx), indices_after_(indices_after) {}
  // The value of scalar input i.
  template <class T>
  T Scalar(int i) const {
    return *ctx_.input(i > indices_after_ ? i + 1 : i).data<T>();
  }

 private:
  const KernelContext& ctx_;
  const int indices_after_;
};

// Adds the inputs of an op with this rule. A name in Rule::kInputs that has a type keeps it.
template <class Rule>
void AddRuleInputs(OpBuilder* op, bool ref, bool sparse) {
  for (int i = 0; i < static_cast<int>(Rule::kInputs.size()); ++i) {
    std::string input = Rule::kInputs[i];
    // The sparse forms call all gradients so.
    if (sparse && i == Rule::kGrad) input = "grad";
    if (input.find(':') == std::string::npos) input += i >= Rule::kSlots ? ": T" : ref ? ": Ref(T)" : ": resource";
    op->Input(input);
    if (sparse && i == Rule::kGrad) op->Input("indices: Tindices");
  }
}

// f.operator()<T>() for the type `dtype`, or UNIMPLEMENTED.
template <class Rule, class F>
absl::Status VisitRuleType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat:
      return f.template operator()<float>();
    case DType::kDouble:
      return f.template operator()<double>();
    case DType::kHalf:
      return f.template operator()<Half>();
    case DType::kBfloat16:
      return f.template operator()<BFloat16>();
    default:
      break;
  }
  if constexpr (!requires { Rule::kRealOnly; }) {
    if (dtype == DType::kComplex64) return f.template operator()<std::complex<float>>();
    if (dtype == DType::kComplex128) return f.template operator()<std::complex<double>>();
  }
  return Unimplemented("this update is not defined for ", Name(dtype));
}

template <class Rule>
class ApplyKernel {
 public:
  explicit ApplyKernel(KernelInit& init) : rule_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& grad = ctx.input(Rule::kGrad);
    VariableUpdate slots(ctx);
    TROUPE_RETURN_IF_ERROR(BeginApply(ctx, Rule::kSlots, grad.dtype(), &slots));
    for (int i : Rule::kScalars) TROUPE_RETURN_IF_ERROR(CheckScalar(ctx, i));
    TROUPE_RETURN_IF_ERROR(CheckGradient(ctx, Rule::kGrad, slots.value(0)));
    TROUPE_RETURN_IF_ERROR(
        VisitRuleType<Rule>(grad.dtype(), [&]<class T>() -> absl::Status { return Run<T>(ctx, slots, grad); }));
    if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  template <class T>
  absl::Status Run(KernelContext& ctx, VariableUpdate& slots, const Tensor& grad) {
    const T* const g = grad.data<T>();
    const RuleInputs in(ctx);
    TROUPE_RETURN_IF_ERROR(slots.WriteInPieces());
    ctx.threads()->ParallelFor(grad.num_elements(), 0.4 * (1 + Rule::kSlots), [&](int64_t begin, int64_t end) {
      slots.InPieces(begin, end, [&](int64_t b, int64_t e) {
        T* at[Rule::kSlots];
        for (int i = 0; i < Rule::kSlots; ++i) at[i] = slots.value(i).template data<T>() + b;
        rule_.template Run<T>(in, at, g + b, e - b);
      });
    });
    return slots.Commit();
  }
  const Rule rule_;
};

// The shape function of the op with this rule.
template <class Rule>
absl::Status ApplyRuleShape(InferenceContext& c) {
  PartialTensorShape shape = NamedShape(c);
  TROUPE_ASSIGN_OR_RETURN(shape, shape.MergeWith(c.input(Rule::kGrad)));
  for (int i : Rule::kScalars) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  if (c.num_outputs() > 0) c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_OPTIMIZER_OP_H_
