// BatchMatMul: products of matrices in batches, with equal batch dimensions.
#include "kernels/product/batch_matmul.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

TROUPE_OP("BatchMatMul")
    .Input("x: T")
    .Input("y: T")
    .Output("output: T")
    .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .Shape([](InferenceContext& c) { return BatchMatMulShape(c, false); })
    .Gradient([](GradientContext& g) { return BatchMatMulGradient(g, "BatchMatMul", false); })
    .Doc(
        "For each index of the leading (batch) dimensions, the matrix of x times the matrix of y; adj_x and adj_y take "
        "the adjoint (conjugate transpose) first. The batch dimensions must be equal.");

struct Kernel : BatchMatMulKernel {
  explicit Kernel(KernelInit& init) : BatchMatMulKernel(init, false) {}
};
TROUPE_KERNEL("BatchMatMul")
    .Device("CPU")
    .Type<BFloat16, Half, float, double, int32_t, int64_t, std::complex<float>, std::complex<double>>("T")
    .Class<Kernel>();

}  // namespace
}  // namespace troupe
