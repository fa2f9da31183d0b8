// _Retval: a value that is handed back to the caller of a function or part.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("_Retval")
    .Input("input: T")
    .Attr("T: type")
    .Attr("index: int >= 0")
    .Stateful()
    .Trait(OpTrait::kResult)
    .Shape(shape_fn::NoOutputs)
    .Gradient(control::GradientByPass)
    .Doc("Hands its input back as value number `index`: to the caller of a function, or as a fetch of a step.");

// The executor takes the input from its slot.
absl::Status ComputeRetval(KernelContext&) { return absl::OkStatus(); }
TROUPE_KERNEL("_Retval").Device("CPU").Function<ComputeRetval, Cost::kTrivial>();
TROUPE_KERNEL("_Retval").Device("GPU").Function<ComputeRetval, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
