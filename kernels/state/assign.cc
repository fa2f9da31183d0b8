// Assign and AssignVariableOp: a new value for a variable that is named by reference, or by handle.
#include "kernels/state/handle_shapes.h"
#include "kernels/state/variable_access.h"
#include "kernels/state/variable_owner.h"
#include "troupe/shape_inference.h"

namespace troupe::state {
namespace {

TROUPE_OP("Assign")
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("output_ref: Ref(T)")
    .Attr("T: type")
    .Attr("validate_shape: bool = true")
    .Attr("use_locking: bool = true")
    .AllowsUninitializedInput()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(const bool validate, c.Attr<bool>("validate_shape"));
      if (validate) return shape_fn::MergeAll(c);
      c.set_output(0, c.input(1));
      return absl::OkStatus();
    })
    .NotDifferentiable("an update is not a value")
    .Doc(
        "Sets the variable and passes its reference on. With `validate_shape` the value must have the variable's "
        "shape.");

class AssignKernel {
 public:
  explicit AssignKernel(KernelInit& init) : validate_(init.Attr<bool>("validate_shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, ctx.input(1).dtype()));
    VariableUpdate update(ctx);
    TROUPE_RETURN_IF_ERROR(update.Begin(slot));
    // Without validation the variable takes on the value's shape, whatever its own says: that is
    // what was asked for.
    if (validate_) TROUPE_RETURN_IF_ERROR(CheckShape(*slot, update.value(), ctx.input(1)));
    TROUPE_RETURN_IF_ERROR(update.Set(ctx.TakeInput(1)));
    ctx.set_output(0, ctx.TakeInput(0));
    return absl::OkStatus();
  }

 private:
  // A value that is there tells the shape, since one that was assigned without validation may have
  // changed it.
  static absl::Status CheckShape(const VariableSlot& slot, const Tensor& old, const Tensor& value) {
    if (slot.CheckReadable().ok()) {
      if (old.SameShape(value)) return absl::OkStatus();
      return Misfit(slot, PartialTensorShape(old.shape()), value);
    }
    return slot.Fits(value.shape()) ? absl::OkStatus() : Misfit(slot, slot.shape(), value);
  }
  static absl::Status Misfit(const VariableSlot& slot, const PartialTensorShape& shape, const Tensor& value) {
    return InvalidArgument("Assign requires shapes of both tensors to match: variable '", slot.name(), "' has shape ",
                           shape.DebugString(), ", the value ", value.shape().DebugString());
  }
  const bool validate_;
};
TROUPE_KERNEL("Assign").Device("CPU").Class<AssignKernel>();

TROUPE_OP("AssignVariableOp")
    .Input("resource: resource")
    .Input("value: dtype")
    .Attr("dtype: type")
    .Attr("validate_shape: bool = false")
    .Stateful()
    .Shape([](InferenceContext& c) { return ValueFitsHandle(c, 1); })
    .NotDifferentiable("an update is not a value")
    .Doc(
        "Sets the variable to a value of its shape, as far as that is known. With `validate_shape` the value must also "
        "have the shape of the value that is there.");

class AssignVariableKernel {
 public:
  explicit AssignVariableKernel(KernelInit& init)
      : dtype_(init.Attr<DType>("dtype")), validate_(init.Attr<bool>("validate_shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, dtype_));
    VariableUpdate update(ctx);
    TROUPE_RETURN_IF_ERROR(update.Begin(slot));
    const Tensor& value = ctx.input(1);
    if (validate_ && slot->CheckReadable().ok() && !update.value().SameShape(value)) {
      return InvalidArgument("variable '", slot->name(), "' has shape ", update.value().shape().DebugString(),
                             ", which does not fit a value of shape ", value.shape().DebugString());
    }
    if (!slot->Fits(value.shape())) {
      return InvalidArgument("variable '", slot->name(), "' has shape ", slot->shape().DebugString(),
                             ", which does not fit a value of shape ", value.shape().DebugString());
    }
    TROUPE_RETURN_IF_ERROR(update.Set(ctx.TakeInput(1)));
    return absl::OkStatus();
  }

 private:
  const DType dtype_;
  const bool validate_;
};
TROUPE_KERNEL("AssignVariableOp").Device("CPU").Class<AssignVariableKernel>();

}  // namespace
}  // namespace troupe::state
