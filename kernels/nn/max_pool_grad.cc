// MaxPoolGrad: the gradient of MaxPool.
#include "kernels/nn/pool.h"

namespace troupe {
namespace {

TROUPE_OP("MaxPoolGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(2, g.Op("MaxPoolGradGrad", {g.Input(0), g.Input(1), g.Grad(0)}, PoolAttrs(g)));
      return g.status();
    })
    .Doc("Adds the gradient of each window to the first largest element of orig_input under it.");

TROUPE_KERNEL("MaxPoolGrad")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, BFloat16, uint16_t, Half, uint32_t, uint64_t>("T")
    .Class<PoolKernelOf<PoolOp::kMaxGrad>>();

}  // namespace
}  // namespace troupe
