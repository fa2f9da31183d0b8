// NoOp: a node that only orders others.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("NoOp")
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no values")
    .Doc("Does nothing; its control edges group other nodes.");

absl::Status ComputeNoOp(KernelContext&) { return absl::OkStatus(); }
TROUPE_KERNEL("NoOp").Device("CPU").Function<ComputeNoOp, Cost::kTrivial>();
TROUPE_KERNEL("NoOp").Device("*").Function<ComputeNoOp, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
