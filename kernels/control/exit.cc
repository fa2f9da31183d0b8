// Exit, RefExit: a value out of a frame.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("Exit")
    .Input("data: T")
    .Output("output: T")
    .Attr("T: type")
    .Flow(ControlFlow::kExit)
    .Shape(control::SameAsInput0)
    .Gradient(control::GradientByPass)
    .Doc("Passes its input to the frame that the current one was entered from.");

TROUPE_OP("RefExit")
    .Input("data: Ref(T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .Flow(ControlFlow::kExit)
    .Shape(control::SameAsInput0)
    .Gradient(control::GradientByPass)
    .Doc("Exit of a variable's reference.");

TROUPE_KERNEL("Exit").Device("CPU").Function<control::Pass, Cost::kTrivial>();
TROUPE_KERNEL("Exit").Device("GPU").Function<control::Pass, Cost::kTrivial>();
TROUPE_KERNEL("RefExit").Device("CPU").Function<control::Pass, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
