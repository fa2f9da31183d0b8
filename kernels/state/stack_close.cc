// StackClose, StackCloseV2: drops what is on the stack.
#include "kernels/state/stack.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("StackCloseV2")
    .Input("handle: resource")
    .Stateful()
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no outputs")
    .Doc("Drops what is on the stack.");

TROUPE_OP("StackClose")
    .Input("handle: Ref(string)")
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no outputs")
    .Doc("StackCloseV2 with a handle as old graphs have it.");

TROUPE_KERNEL("StackCloseV2").Device("CPU").Function<state::ComputeStackClose, Cost::kTrivial>();
TROUPE_KERNEL("StackClose").Device("CPU").Function<state::ComputeStackClose, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
