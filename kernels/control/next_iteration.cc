// NextIteration, RefNextIteration: a value into the frame's next iteration.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("NextIteration")
    .Input("data: T")
    .Output("output: T")
    .Attr("T: type")
    .Flow(ControlFlow::kNextIteration)
    .Shape(control::SameAsInput0)
    .Gradient(control::GradientByPass)
    .Doc("Passes its input to the next iteration of the current frame.");

TROUPE_OP("RefNextIteration")
    .Input("data: Ref(T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .Flow(ControlFlow::kNextIteration)
    .Shape(control::SameAsInput0)
    .Gradient(control::GradientByPass)
    .Doc("NextIteration of a variable's reference.");

TROUPE_KERNEL("NextIteration").Device("CPU").Function<control::Pass, Cost::kTrivial>();
TROUPE_KERNEL("NextIteration").Device("GPU").Function<control::Pass, Cost::kTrivial>();
TROUPE_KERNEL("RefNextIteration").Device("CPU").Function<control::Pass, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
