// A library of one op, for --load: PluginTriple(x) = 3 x.
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("PluginTriple")
    .Input("x: float")
    .Output("y: float")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("nobody needs it")
    .Doc("Three times x.");

absl::Status Triple(KernelContext& ctx) {
  const Tensor x = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.shape()));
  for (int64_t i = 0; i < x.num_elements(); ++i) y->data<float>()[i] = 3 * x.data<float>()[i];
  return absl::OkStatus();
}

TROUPE_KERNEL("PluginTriple").Device("CPU").Function<Triple>();

}  // namespace
}  // namespace troupe
