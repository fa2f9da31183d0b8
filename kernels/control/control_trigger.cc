// ControlTrigger: a NoOp that runs even when its control inputs are dead.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("ControlTrigger")
    .Flow(ControlFlow::kControlTrigger)
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no values")
    .Doc("Does nothing, and is alive whether or not its control inputs are.");

absl::Status ComputeControlTrigger(KernelContext&) { return absl::OkStatus(); }
TROUPE_KERNEL("ControlTrigger").Device("CPU").Function<ComputeControlTrigger, Cost::kTrivial>();
TROUPE_KERNEL("ControlTrigger").Device("*").Function<ComputeControlTrigger, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
