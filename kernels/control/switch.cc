// Switch, RefSwitch: one value to one of two outputs.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

absl::Status SwitchShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  return shape_fn::Unchanged(c);
}

TROUPE_OP("Switch")
    .Input("data: T")
    .Input("pred: bool")
    .Output("output_false: T")
    .Output("output_true: T")
    .Attr("T: type")
    .Flow(ControlFlow::kSwitch)
    .Shape(SwitchShape)
    .Gradient(control::GradientByPass)
    .Doc("Passes `data` to `output_true` when `pred` holds and to `output_false` otherwise; the other output is dead.");

TROUPE_OP("RefSwitch")
    .Input("data: Ref(T)")
    .Input("pred: bool")
    .Output("output_false: Ref(T)")
    .Output("output_true: Ref(T)")
    .Attr("T: type")
    .AllowsUninitializedInput()
    .Flow(ControlFlow::kSwitch)
    .Shape(SwitchShape)
    .Gradient(control::GradientByPass)
    .Doc("Switch of a variable's reference.");

absl::Status ComputeSwitch(KernelContext& ctx) {
  const Tensor& pred = ctx.input(1);
  if (pred.rank() != 0) return InvalidArgument("pred must be a scalar, but has shape ", pred.shape().DebugString());
  const int taken = pred.scalar<bool>() ? 1 : 0;
  ctx.set_output(taken, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("Switch").Device("CPU").Function<ComputeSwitch, Cost::kTrivial>();
TROUPE_KERNEL("Switch").Device("*").HostMemory("pred").Function<ComputeSwitch, Cost::kTrivial>();
TROUPE_KERNEL("RefSwitch").Device("CPU").Function<ComputeSwitch, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
