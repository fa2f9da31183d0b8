// MaxPoolGradGrad: the second-order gradient of MaxPool.
#include "kernels/nn/pool.h"

namespace troupe {
namespace {

TROUPE_OP("MaxPoolGradGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
    .Shape(PoolOutputShape)
    .Gradient([](GradientContext& g) {
      g.Set(2, g.Op("MaxPoolGrad", {g.Input(0), g.Input(1), g.Grad(0)}, PoolAttrs(g)));
      return g.status();
    })
    .Doc("Takes, for each window, the element of grad where orig_input has its first largest one.");

TROUPE_KERNEL("MaxPoolGradGrad")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, BFloat16, uint16_t, Half, uint32_t, uint64_t>("T")
    .Class<PoolKernelOf<PoolOp::kMaxGradGrad>>();

}  // namespace
}  // namespace troupe
