// _Arg: a value that the caller of a function or part hands in.
#include "kernels/control/flow_op.h"

namespace troupe {
namespace {

TROUPE_OP("_Arg")
    .Output("output: T")
    .Attr("T: type")
    .Attr("index: int >= 0")
    .Stateful()
    .Trait(OpTrait::kArgument)
    .Shape([](InferenceContext& c) -> absl::Status {
      // The pass that makes the node may know more and says so in "_output_shapes".
      c.set_output(0, PartialTensorShape());
      return absl::OkStatus();
    })
    .Gradient(control::GradientByPass)
    .Doc("The value number `index` that the caller of a function, or the feeds of a step, hand in.");

// The executor puts the value on the output and never calls the kernel.
absl::Status ComputeArg(KernelContext& ctx) {
  return Internal("the value of '", ctx.node().name, "' was not handed in");
}
TROUPE_KERNEL("_Arg").Device("CPU").Function<ComputeArg, Cost::kTrivial>();
TROUPE_KERNEL("_Arg").Device("GPU").Function<ComputeArg, Cost::kTrivial>();

}  // namespace
}  // namespace troupe
