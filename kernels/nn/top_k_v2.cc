// TopKV2: the k largest elements of each row, with k as an input.
#include "kernels/nn/top_k.h"

namespace troupe {
namespace {

// The value of a scalar int16, int32 or int64; -1 for another rank.
int64_t ScalarOf(const Tensor& t) {
  if (t.rank() != 0) return -1;
  if (t.dtype() == DType::kInt16) return t.scalar<int16_t>();
  return t.dtype() == DType::kInt32 ? t.scalar<int32_t>() : t.scalar<int64_t>();
}

TROUPE_OP("TopKV2")
    .Input("input: T")
    .Input("k: Tk")
    .Output("values: T")
    .Output("indices: index_type")
    .Attr("sorted: bool = true")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
    .Attr("Tk: {int16, int32, int64} = DT_INT32")
    .Attr("index_type: {int16, int32, int64} = DT_INT32")
    .Shape([](InferenceContext& c) {
      const Tensor* k = c.input_tensor(1);
      return TopKShape(c, k == nullptr ? -1 : ScalarOf(*k));
    })
    .Gradient(TopKGradient)
    .Doc("As TopK, with k as an input.");

absl::Status Compute(KernelContext& ctx) {
  const Tensor& k = ctx.input(1);
  if (k.rank() != 0) return InvalidArgument("k must be scalar, got shape ", k.shape().DebugString());
  return ComputeTopK(ctx, ScalarOf(k));
}
TROUPE_KERNEL("TopKV2")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, BFloat16, uint16_t, Half, uint32_t, uint64_t>("T")
    .HostMemory("k")
    .Function<Compute>();

}  // namespace
}  // namespace troupe
