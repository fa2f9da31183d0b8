// FusedBatchNormGradV2: the gradient of FusedBatchNormV2.
#include "kernels/nn/batch_norm.h"

namespace troupe {
namespace {

TROUPE_OP("FusedBatchNormGradV2")
    .Input("y_backprop: T")
    .Input("x: T")
    .Input("scale: float")
    .Input("reserve_space_1: U")
    .Input("reserve_space_2: U")
    .Output("x_backprop: T")
    .Output("scale_backprop: U")
    .Output("offset_backprop: U")
    .Output("reserve_space_3: U")
    .Output("reserve_space_4: U")
    .Attr("T: {half, bfloat16, float}")
    .Attr("U: {float}")
    .Attr("epsilon: float = 0.0001")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("is_training: bool = true")
    .Shape(BatchNormGradShape)
    .NotDifferentiable("second derivatives of batch normalisation are not defined")
    .Doc(
        "The gradients of FusedBatchNormV2 with respect to x, scale and offset. reserve_space_1 and 2 are its outputs "
        "of that name where is_training, "
        "else its inputs mean and variance. The last two outputs are unused.");

TROUPE_KERNEL("FusedBatchNormGradV2")
    .Device("CPU")
    .Type<Half, BFloat16, float>("T")
    .Type<float>("U")
    .Class<BatchNormGradKernel>();

}  // namespace
}  // namespace troupe
