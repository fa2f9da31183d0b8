// Enter, RefEnter: a value into a frame.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("Enter")
    .Input("data: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("frame_name: string")
    .Attr("is_constant: bool = false")
    .Attr("parallel_iterations: int = 10")
    .Flow(ControlFlow::kEnter)
    .Shape(control::SameAsInput0)
    .Gradient(control::GradientByPass)
    .Doc(
        "Passes its input into iteration 0 of the child frame `frame_name`, which is made when its first value comes; "
        "with `is_constant`, into "
        "every iteration. At most `parallel_iterations` iterations of the frame are in flight.");

TROUPE_OP("RefEnter")
    .Input("data: Ref(T)")
    .Output("output: Ref(T)")
    .Attr("T: type")
    .Attr("frame_name: string")
    .Attr("is_constant: bool = false")
    .Attr("parallel_iterations: int = 10")
    .Flow(ControlFlow::kEnter)
    .Shape(control::SameAsInput0)
    .Gradient(control::GradientByPass)
    .Doc("Enter of a variable's reference.");

TROUPE_KERNEL("Enter").Device("CPU").Function<control::Pass, Cost::kTrivial>();
TROUPE_KERNEL("Enter").Device("GPU").Function<control::Pass, Cost::kTrivial>();
TROUPE_KERNEL("RefEnter").Device("CPU").Function<control::Pass, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
