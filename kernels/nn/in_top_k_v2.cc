// InTopKV2: InTopK with k as an input.
#include "kernels/nn/in_top_k.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

TROUPE_OP("InTopKV2")
    .Input("predictions: float")
    .Input("targets: T")
    .Input("k: T")
    .Output("precision: bool")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(InTopKShape)
    .NotDifferentiable("its output is boolean")
    .Doc("As InTopK, with k as an input.");

absl::Status Compute(KernelContext& ctx) {
  const Tensor& k = ctx.input(2);
  if (k.rank() != 0) return InvalidArgument("k must be a scalar, but its shape is ", k.shape().DebugString());
  return ComputeInTopK(ctx, k.dtype() == DType::kInt32 ? k.scalar<int32_t>() : k.scalar<int64_t>());
}
TROUPE_KERNEL("InTopKV2").Device("CPU").Type<int32_t, int64_t>("T").Function<Compute>();

}  // namespace
}  // namespace troupe
