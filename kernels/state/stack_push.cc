// StackPush, StackPushV2: puts `elem` on the stack and passes it on.
#include "kernels/state/stack.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("StackPushV2")
    .Input("handle: resource")
    .Input("elem: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("swap_memory: bool = false")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      c.set_output(0, c.input(1));
      return absl::OkStatus();
    })
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("Puts `elem` on the stack and passes it on; INVALID_ARGUMENT when the stack is full.");

TROUPE_OP("StackPush")
    .Input("handle: Ref(string)")
    .Input("elem: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("swap_memory: bool = false")
    .Shape([](InferenceContext& c) -> absl::Status {
      c.set_output(0, c.input(1));
      return absl::OkStatus();
    })
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("StackPushV2 with a handle as old graphs have it.");

TROUPE_KERNEL("StackPushV2").Device("CPU").Function<state::ComputeStackPush, Cost::kTrivial>();
TROUPE_KERNEL("StackPush").Device("CPU").Function<state::ComputeStackPush, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
