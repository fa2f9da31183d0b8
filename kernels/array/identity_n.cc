// IdentityN: its inputs, together: no output comes before every input is there.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

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

}  // namespace
}  // namespace troupe::array
