// AssignVariableOp: a new value for a variable.
#include "kernels/state/handle_shapes.h"
#include "kernels/state/variable_owner.h"

namespace troupe {
namespace {

TROUPE_OP("AssignVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Attr("validate_shape: bool = false")
    .Stateful()
    .Shape([](InferenceContext& c) { return state::ValueFitsHandle(c, 1); })
    .NotDifferentiable("an update is not a value")
    .Doc("Sets the variable to a value of its shape, as far as that is known. With `validate_shape` the value must also have "
        "the shape of the value that is there.");

class AssignVariableKernel {
 public:
  explicit AssignVariableKernel(KernelInit& init)
      : dtype_(init.Attr<DType>("dtype")), validate_(init.Attr<bool>("validate_shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, state::Slot(ctx, 0, dtype_));
    if (validate_ && slot->initialized()) {
      const absl::StatusOr<Tensor> old = slot->Read();
      if (old.ok() && !old->SameShape(ctx.input(1))) {
        return InvalidArgument("variable '", slot->name(), "' has shape ", old->shape().DebugString(),
                               ", which does not fit a value of shape ", ctx.input(1).shape().DebugString());
      }
    }
    return slot->Assign(ctx.TakeInput(1));
  }

 private:
  const DType dtype_;
  const bool validate_;
};
TROUPE_KERNEL("AssignVariableOp").Device("CPU").Class<AssignVariableKernel>();

}  // namespace
}  // namespace troupe
