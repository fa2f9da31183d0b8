// FusedBatchNormGrad: the gradient of FusedBatchNorm.
#include "kernels/nn/batch_norm.h"

namespace troupe {
namespace {

TROUPE_OP("FusedBatchNormGrad")
    .Input("y_backprop: T")
    .Input("x: T")
    .Input("scale: T")
    .Input("reserve_space_1: T")
    .Input("reserve_space_2: T")
    .Output("x_backprop: T")
    .Output("scale_backprop: T")
    .Output("offset_backprop: T")
    .Output("reserve_space_3: T")
    .Output("reserve_space_4: T")
    .Attr("T: {float}")
    .Attr("epsilon: float = 0.0001")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("is_training: bool = true")
    .Shape(BatchNormGradShape)
    .NotDifferentiable("second derivatives of batch normalisation are not defined")
    .Doc(
        "The gradients of FusedBatchNorm with respect to x, scale and offset. reserve_space_1 and 2 are its outputs of "
        "that name where is_training, "
        "else its inputs mean and variance. The last two outputs are unused.");

TROUPE_KERNEL("FusedBatchNormGrad").Device("CPU").Type<float>("T").Class<BatchNormGradKernel>();

}  // namespace
}  // namespace troupe
