// IsVariableInitialized and VarIsInitializedOp: whether a variable that is named by reference, or
// by handle, has a value.
#include "kernels/state/variable_slot.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::state {
namespace {

TROUPE_OP("IsVariableInitialized")
    .Input("ref: Ref(dtype)")
    .Output("is_initialized: bool")
    .Trait(OpTrait::kIgnoresReference)
    .Attr("dtype: type")
    .AllowsUninitializedInput()
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is bool")
    .Doc("Whether the variable has a value.");

absl::Status ComputeIsVariableInitialized(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, ctx.resource<VariableSlot>(0));
  ctx.set_output(0, Tensor::Scalar<bool>(slot->initialized()));
  return absl::OkStatus();
}
TROUPE_KERNEL("IsVariableInitialized").Device("CPU").Function<ComputeIsVariableInitialized, Cost::kTrivial>();

TROUPE_OP("VarIsInitializedOp")
    .Input("resource: resource")
    .Output("is_initialized: bool")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is bool")
    .Doc("Whether the variable that the handle names has a value.");

absl::Status ComputeVarIsInitialized(KernelContext& ctx) {
  const absl::StatusOr<VariableSlot*> slot = ctx.resource<VariableSlot>(0);
  ctx.set_output(0, Tensor::Scalar<bool>(slot.ok() && (*slot)->initialized()));
  return absl::OkStatus();
}
TROUPE_KERNEL("VarIsInitializedOp").Device("CPU").Function<ComputeVarIsInitialized, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::state
