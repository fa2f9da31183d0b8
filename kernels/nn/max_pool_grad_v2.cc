// MaxPoolGradV2: the gradient of MaxPoolV2.
#include "kernels/nn/pool.h"

namespace troupe {
namespace {

TROUPE_OP("MaxPoolGradV2")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Input("ksize: int32")
    .Input("strides: int32")
    .Output("output: T")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("MaxPoolGradGradV2 is not there; MaxPoolGrad, with the window in attrs, has a gradient")
    .Doc("As MaxPoolGrad, with the window and its strides as inputs.");

TROUPE_KERNEL("MaxPoolGradV2")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, BFloat16, uint16_t, Half, uint32_t, uint64_t>("T")
    .HostMemory("ksize")
    .HostMemory("strides")
    .Class<PoolKernelOf<PoolOp::kMaxGrad, true>>();

}  // namespace
}  // namespace troupe
