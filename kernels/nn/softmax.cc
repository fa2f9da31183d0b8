// Softmax: exp(logits) / sum(exp(logits)) over the last dimension.
#include "kernels/nn/softmax.h"

#include "troupe/op_def.h"

namespace troupe {
namespace {

// y = softmax(x): dx = (dy - sum(dy * y)) * y.
absl::Status Gradient(GradientContext& g) {
  const NodeOut d = g.Grad(0), y = g.Output(0);
  const NodeOut sum = g.Op("Sum", {g.Op("Mul", {d, y}), g.Const(Tensor::Scalar<int32_t>(-1))}, {{"keep_dims", true}});
  g.Set(0, g.Op("Mul", {g.Op("Sub", {d, sum}), y}));
  return g.status();
}

TROUPE_OP("Softmax")
    .Input("logits: T")
    .Output("softmax: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(SoftmaxShape)
    .Gradient(Gradient)
    .Doc("exp(logits) / sum(exp(logits)) over the last dimension.");

absl::Status Compute(KernelContext& ctx) { return ComputeSoftmax(ctx, false); }
TROUPE_KERNEL("Softmax").Device("CPU").Type<Half, BFloat16, float, double>("T").Function<Compute>();

}  // namespace
}  // namespace troupe
