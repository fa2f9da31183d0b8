// ReadVariableOp: a snapshot of a variable.
#include "kernels/state/handle_shapes.h"
#include "kernels/state/variable_access.h"
#include "kernels/state/variable_owner.h"
#include "troupe/gradient_function.h"

namespace troupe {
namespace {

TROUPE_OP("ReadVariableOp")
    .Input("resource: resource")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(state::CheckHandleType(c));
      c.set_output(0, state::NamedShape(c));
      return absl::OkStatus();
    })
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(0));
      return g.status();
    })
    .Trait(OpTrait::kReadsVariable)
    .Doc("The variable's value as it is when the node runs; later updates do not change what was read.");

class ReadVariableKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit ReadVariableKernel(KernelInit& init) : dtype_(init.Attr<DType>("dtype")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, state::Slot(ctx, 0, dtype_));
    TROUPE_ASSIGN_OR_RETURN(Tensor value, state::ReadVariable(ctx, slot));
    ctx.set_output(0, std::move(value));
    return absl::OkStatus();
  }

 private:
  const DType dtype_;
};
TROUPE_KERNEL("ReadVariableOp").Device("CPU").Class<ReadVariableKernel>();

}  // namespace
}  // namespace troupe
