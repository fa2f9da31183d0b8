// Ops that hand their input on: Identity, Snapshot, IdentityN, StopGradient and PreventGradient.
//
// A reference that arrives at Identity has become the variable's value on the way (input T is a
// value), so this is also how a variable is read. IdentityN gives no output before every input is
// there.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

TROUPE_OP("Identity")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Trait(OpTrait::kForwardsInput)
    .Trait(OpTrait::kPassesGradient)
    .Shape(shape_fn::Unchanged)
    .Gradient(PassOnGradient)
    .Doc("The input, with the same shape and contents.");
TROUPE_KERNEL("Identity").Device("CPU").Function<PassOn, Cost::kTrivial>();
TROUPE_KERNEL("Identity").Device("*").Function<PassOn, Cost::kTrivial>();

TROUPE_OP("Snapshot")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Trait(OpTrait::kForwardsInput)
    .Trait(OpTrait::kPassesGradient)
    .Shape(shape_fn::Unchanged)
    .Gradient(PassOnGradient)
    .Doc("The input's value at this moment. Values never change under their readers here, so this is Identity.");
TROUPE_KERNEL("Snapshot").Device("CPU").Function<PassOn, Cost::kTrivial>();

absl::Status IdentityNShape(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    c.set_output(i, c.input(i));
    c.set_output_handle(i, c.input_handle(i));
  }
  return absl::OkStatus();
}

absl::Status IdentityNGradient(GradientContext& g) {
  for (int i = 0; i < g.num_outputs(); ++i) {
    if (g.HasGrad(i)) g.Set(i, g.Grad(i));
  }
  return g.status();
}

absl::Status PassAllOn(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) ctx.set_output(i, ctx.TakeInput(i));
  return absl::OkStatus();
}

TROUPE_OP("IdentityN")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: list(type) >= 1")
    .Shape(IdentityNShape)
    .Gradient(IdentityNGradient)
    .Doc("The inputs, each with the same shape and contents.");
TROUPE_KERNEL("IdentityN").Device("CPU").Function<PassAllOn, Cost::kTrivial>();

TROUPE_OP("StopGradient")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Trait(OpTrait::kForwardsInput)
    .Shape(shape_fn::Unchanged)
    .Gradient(NoGradientFlows)
    .Doc("The input; for gradients its output is a constant.");
TROUPE_KERNEL("StopGradient").Device("CPU").Function<PassOn, Cost::kTrivial>();

absl::Status RefuseGradient(GradientContext& g) {
  return InvalidArgument("gradient explicitly disabled; reason: ", g.Attr<std::string>("message"));
}

TROUPE_OP("PreventGradient")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("message: string = ''")
    .Trait(OpTrait::kForwardsInput)
    .Shape(shape_fn::Unchanged)
    .Gradient(RefuseGradient)
    .Doc("The input. A request for gradients through it fails with `message`.");
TROUPE_KERNEL("PreventGradient").Device("CPU").Function<PassOn, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
