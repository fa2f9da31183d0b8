// What the Apply ops (one step of an optimizer) share.
//
// Inputs 0 .. kSlots-1 name the variable and its slots, by reference or by handle; the rest are
// values. The update has all of them to itself while it runs (variable_access.h); one with a
// snapshot out is copied first.
//
//   struct MomentumRule {
//     static constexpr int kSlots = 2, kGrad = 3;                    // accum; the gradient's input
//     static constexpr std::initializer_list<int> kScalars = {2, 4};
//     explicit MomentumRule(KernelInit& init);
//     template <class T> void Run(const KernelContext& ctx, T* const* slots, const T* grad, int64_t n) const;
//   };
#ifndef TROUPE_KERNELS_STATE_OPTIMIZER_OP_H_
#define TROUPE_KERNELS_STATE_OPTIMIZER_OP_H_

#include <complex>

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

// The value of scalar input i.
template <class T>
T Scalar(const KernelContext& ctx, int i) {
  return *ctx.input(i).data<T>();
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
    TROUPE_RETURN_IF_ERROR(Visit(ctx, slots, grad));
    if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  absl::Status Visit(KernelContext& ctx, VariableUpdate& slots, const Tensor& grad) {
    switch (grad.dtype()) {
      case DType::kFloat:
        return Run<float>(ctx, slots, grad);
      case DType::kDouble:
        return Run<double>(ctx, slots, grad);
      case DType::kHalf:
        return Run<Half>(ctx, slots, grad);
      case DType::kBfloat16:
        return Run<BFloat16>(ctx, slots, grad);
      default:
        break;
    }
    if constexpr (!requires { Rule::kRealOnly; }) {
      if (grad.dtype() == DType::kComplex64) return Run<std::complex<float>>(ctx, slots, grad);
      if (grad.dtype() == DType::kComplex128) return Run<std::complex<double>>(ctx, slots, grad);
    }
    return Unimplemented("this update is not defined for ", Name(grad.dtype()));
  }
  template <class T>
  absl::Status Run(KernelContext& ctx, VariableUpdate& slots, const Tensor& grad) {
    const T* const g = grad.data<T>();
    TROUPE_RETURN_IF_ERROR(slots.Write());
    ctx.threads()->ParallelFor(grad.num_elements(), 0.4 * (1 + Rule::kSlots), [&](int64_t begin, int64_t end) {
      T* at[Rule::kSlots];
      for (int i = 0; i < Rule::kSlots; ++i) at[i] = slots.value(i).template data<T>() + begin;
      rule_.template Run<T>(ctx, at, g + begin, end - begin);
    });
    slots.Commit();
    return absl::OkStatus();
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
