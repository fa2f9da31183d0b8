// VariableShape: the shape of a variable's value.
#include "kernels/state/handle_shapes.h"
#include "kernels/state/variable_access.h"
#include "kernels/state/variable_owner.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("VariableShape")
    .Input("input: resource")
    .Output("output: out_type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Shape([](InferenceContext& c) -> absl::Status {
      c.set_output(0, PartialTensorShape({state::NamedShape(c).rank()}));
      return absl::OkStatus();
    })
    .NotDifferentiable("a shape does not depend on the values")
    .Doc("The shape of the value of the variable that the handle names, as a vector.");

absl::Status ComputeVariableShape(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, state::Slot(ctx, 0));
  TROUPE_ASSIGN_OR_RETURN(const Tensor value, state::ReadVariable(ctx, slot));
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, TensorShape({value.rank()})));
  for (int i = 0; i < value.rank(); ++i) {
    if (out->dtype() == DType::kInt64) {
      out->data<int64_t>()[i] = value.dim(i);
    } else {
      if (value.dim(i) != static_cast<int32_t>(value.dim(i))) {
        return InvalidArgument("dimension ", i, " = ", value.dim(i), " of variable '", slot->name(),
                               "' does not fit into int32");
      }
      out->data<int32_t>()[i] = static_cast<int32_t>(value.dim(i));
    }
  }
  return absl::OkStatus();
}
TROUPE_KERNEL("VariableShape").Device("CPU").Function<ComputeVariableShape, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
