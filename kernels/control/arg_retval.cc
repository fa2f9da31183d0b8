// _Arg and _Retval: values that the caller of a function or part hands in, and gets back.
#include "kernels/control/flow_op.h"

namespace troupe::control {
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
    .Gradient(GradientByPass)
    .Doc("The value number `index` that the caller of a function, or the feeds of a step, hand in.");

// The executor puts the value on the output and never calls the kernel.
absl::Status ComputeArg(KernelContext& ctx) {
  return Internal("the value of '", ctx.node().name, "' was not handed in");
}
TROUPE_KERNEL("_Arg").Device("CPU").Function<ComputeArg, Cost::kTrivial>();
TROUPE_KERNEL("_Arg").Device("*").HostMemory("output").Function<ComputeArg, Cost::kTrivial>();

TROUPE_OP("_Retval")
    .Input("input: T")
    .Attr("T: type")
    .Attr("index: int >= 0")
    .Stateful()
    .Trait(OpTrait::kResult)
    .Shape(shape_fn::NoOutputs)
    .Gradient(GradientByPass)
    .Doc("Hands its input back as value number `index`: to the caller of a function, or as a fetch of a step.");

// The executor takes the input from its slot.
absl::Status ComputeRetval(KernelContext&) { return absl::OkStatus(); }
TROUPE_KERNEL("_Retval").Device("CPU").Function<ComputeRetval, Cost::kTrivial>();
TROUPE_KERNEL("_Retval").Device("*").HostMemory("input").Function<ComputeRetval, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::control
