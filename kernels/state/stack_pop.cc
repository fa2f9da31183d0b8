// StackPop, StackPopV2: takes the value on top off the stack.
#include "kernels/state/stack.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("StackPopV2")
    .Input("handle: resource")
    .Output("elem: elem_type")
    .Attr("elem_type: type")
    .Stateful()
    .Shape(shape_fn::Unknown)
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("Takes the value on top off the stack; INVALID_ARGUMENT when there is none.");

TROUPE_OP("StackPop")
    .Input("handle: Ref(string)")
    .Output("elem: elem_type")
    .Attr("elem_type: type")
    .Shape(shape_fn::Unknown)
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("StackPopV2 with a handle as old graphs have it.");

TROUPE_KERNEL("StackPopV2").Device("CPU").Function<state::ComputeStackPop, Cost::kTrivial>();
TROUPE_KERNEL("StackPop").Device("CPU").Function<state::ComputeStackPop, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
