// BatchMatMulV2: products of matrices in batches whose dimensions broadcast.
#include "kernels/product/batch_matmul.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

TROUPE_OP("BatchMatMulV2")
    .Input("x: T")
    .Input("y: T")
    .Output("output: T")
    .Attr(
        "T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .Shape([](InferenceContext& c) { return BatchMatMulShape(c, true); })
    .Gradient([](GradientContext& g) { return BatchMatMulGradient(g, "BatchMatMulV2", true); })
    .Doc("As BatchMatMul, but the batch dimensions of x and y are broadcast to each other.");

struct Kernel : BatchMatMulKernel {
  explicit Kernel(KernelInit& init) : BatchMatMulKernel(init, true) {}
};
TROUPE_KERNEL("BatchMatMulV2")
    .Device("CPU")
    .Type<BFloat16, Half, float, double, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
          std::complex<float>, std::complex<double>>("T")
    .Class<Kernel>();

}  // namespace
}  // namespace troupe
