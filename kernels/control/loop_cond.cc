// LoopCond: the condition of a loop.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("LoopCond")
    .Input("input: bool")
    .Output("output: bool")
    .Flow(ControlFlow::kLoopCond)
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape s, c.WithRank(0, 0));
      c.set_output(0, std::move(s));
      return absl::OkStatus();
    })
    .NotDifferentiable("its value is bool")
    .Doc("Passes its input, the scalar that says whether the loop goes on, to the Switch nodes of the loop.");

TROUPE_KERNEL("LoopCond").Device("CPU").Function<control::Pass, Cost::kTrivial>();
TROUPE_KERNEL("LoopCond")
    .Device("GPU")
    .HostMemory("input")
    .HostMemory("output")
    .Function<control::Pass, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
