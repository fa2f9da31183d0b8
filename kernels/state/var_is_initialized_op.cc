// VarIsInitializedOp: whether a variable has a value.
#include "kernels/state/variable_slot.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("VarIsInitializedOp")
    .Input("resource: resource")
    .Output("is_initialized: bool")
    .Stateful()
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
}  // namespace troupe
