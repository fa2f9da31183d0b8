// AssignAdd, AssignAddVariableOp: add a whole tensor to a variable.
#include "troupe/kernels/state/dense_update.h"
#include "troupe/kernels/state/handle_shapes.h"
#include "troupe/kernels/state/variable_owner.h"

namespace troupe {
namespace {

TROUPE_OP("AssignAdd")
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: numbertype")
    .Attr("use_locking: bool = false")
    .Shape(shape_fn::MergeAll)
    .NotDifferentiable("an update is not a value")
    .Doc("Adds `value` to the variable and passes its reference on.");

TROUPE_OP("AssignAddVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape([](InferenceContext& c) { return state::ValueFitsHandle(c, 1); })
    .NotDifferentiable("an update is not a value")
    .Doc("Adds `value` to the variable.");

absl::Status ComputeAdd(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, state::Slot(ctx, 0, ctx.input(1).dtype()));
  TROUPE_RETURN_IF_ERROR(state::UpdateDense(ctx, slot, ctx.input(1), state::DenseOp::kAdd));
  if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("AssignAdd").Device("CPU").Function<ComputeAdd>();
TROUPE_KERNEL("AssignAddVariableOp").Device("CPU").Function<ComputeAdd>();

}  // namespace
}  // namespace troupe
