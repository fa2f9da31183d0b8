// FusedBatchNormGradV3: the gradient of FusedBatchNormV3.
#include "kernels/nn/batch_norm.h"

namespace troupe {
namespace {

TROUPE_OP("FusedBatchNormGradV3")
    .Input("y_backprop: T")
    .Input("x: T")
    .Input("scale: float")
    .Input("reserve_space_1: U")
    .Input("reserve_space_2: U")
    .Input("reserve_space_3: U")
    .Output("x_backprop: T")
    .Output("scale_backprop: U")
    .Output("offset_backprop: U")
    .Output("reserve_space_4: U")
    .Output("reserve_space_5: U")
    .Attr("T: {half, bfloat16, float}")
    .Attr("U: {bfloat16, float}")
    .Attr("epsilon: float = 0.0001")
    .Attr("data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'")
    .Attr("is_training: bool = true")
    .Shape(BatchNormGradShape)
    .NotDifferentiable("second derivatives of batch normalisation are not defined")
    .Doc(
        "The gradients of FusedBatchNormV3 with respect to x, scale and offset. reserve_space_1 and 2 are its outputs "
        "of that name where is_training, "
        "else its inputs mean and variance. The last two outputs are unused.");

TROUPE_KERNEL("FusedBatchNormGradV3")
    .Device("CPU")
    .Type<Half, BFloat16, float>("T")
    .Type<BFloat16, float>("U")
    .Class<BatchNormGradKernel>();

}  // namespace
}  // namespace troupe
