// LogSoftmax: logits - log(sum(exp(logits))) over the last dimension.
#include "kernels/nn/softmax.h"

#include "troupe/op_def.h"

namespace troupe {
namespace {

// y = x - log(sum(exp(x))): dx = dy - sum(dy) * exp(y).
absl::Status Gradient(GradientContext& g) {
  const NodeOut d = g.Grad(0);
  const NodeOut sum = g.Op("Sum", {d, g.Const(Tensor::Scalar<int32_t>(-1))}, {{"keep_dims", true}});
  g.Set(0, g.Op("Sub", {d, g.Op("Mul", {sum, g.Op("Exp", {g.Output(0)})})}));
  return g.status();
}

TROUPE_OP("LogSoftmax")
    .Input("logits: T")
    .Output("logsoftmax: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(SoftmaxShape)
    .Gradient(Gradient)
    .Doc("logits - log(sum(exp(logits))) over the last dimension.");

absl::Status Compute(KernelContext& ctx) { return ComputeSoftmax(ctx, true); }
TROUPE_KERNEL("LogSoftmax").Device("CPU").Type<Half, BFloat16, float, double>("T").Function<Compute>();

}  // namespace
}  // namespace troupe
