// FusedBatchNorm, its versions and their gradients: batch normalisation
// (https://arxiv.org/abs/1502.03167) of images.
#include "kernels/common/types.h"
#include "kernels/nn/batch_norm.h"

namespace troupe {
namespace {

TROUPE_OP("FusedBatchNorm")
    .Input("x: T")
    .Input("scale: T")
    .Input("offset: T")
    .Input("mean: T")
    .Input("variance: T")
    .Output("y: T")
    .Output("batch_mean: T")
    .Output("batch_variance: T")
    .Output("reserve_space_1: T")
    .Output("reserve_space_2: T")
    .Attr("T: {float}")
    .Attr("epsilon: float = 0.0001")
    .Attr("exponential_avg_factor: float = 1.0")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("is_training: bool = true")
    .Shape(BatchNormShape)
    .Gradient([](GradientContext& g) { return BatchNormGradient(g, "FusedBatchNormGrad"); })
    .Doc(
        "(x - mean) / sqrt(variance + epsilon) * scale + offset for each channel. Where is_training, mean and variance "
        "are the batch's own; "
        "batch_mean and batch_variance are what to keep for later, the reserves are for the gradient.");

TROUPE_CPU_KERNEL("FusedBatchNorm").Class<BatchNormKernel>();

TROUPE_OP("FusedBatchNormV2")
    .Input("x: T")
    .Input("scale: U")
    .Input("offset: U")
    .Input("mean: U")
    .Input("variance: U")
    .Output("y: T")
    .Output("batch_mean: U")
    .Output("batch_variance: U")
    .Output("reserve_space_1: U")
    .Output("reserve_space_2: U")
    .Attr("T: {half, bfloat16, float}")
    .Attr("U: {float}")
    .Attr("epsilon: float = 0.0001")
    .Attr("exponential_avg_factor: float = 1.0")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("is_training: bool = true")
    .Shape(BatchNormShape)
    .Gradient([](GradientContext& g) { return BatchNormGradient(g, "FusedBatchNormGradV2"); })
    .Doc(
        "(x - mean) / sqrt(variance + epsilon) * scale + offset for each channel. Where is_training, mean and variance "
        "are the batch's own; "
        "batch_mean and batch_variance are what to keep for later, the reserves are for the gradient.");

TROUPE_CPU_KERNEL("FusedBatchNormV2").Type<float>("U").Class<BatchNormKernel>();

TROUPE_OP("FusedBatchNormV3")
    .Input("x: T")
    .Input("scale: U")
    .Input("offset: U")
    .Input("mean: U")
    .Input("variance: U")
    .Output("y: T")
    .Output("batch_mean: U")
    .Output("batch_variance: U")
    .Output("reserve_space_1: U")
    .Output("reserve_space_2: U")
    .Output("reserve_space_3: U")
    .Attr("T: {half, bfloat16, float}")
    .Attr("U: {bfloat16, float}")
    .Attr("epsilon: float = 0.0001")
    .Attr("exponential_avg_factor: float = 1.0")
    .Attr("data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'")
    .Attr("is_training: bool = true")
    .Shape(BatchNormShape)
    .Gradient([](GradientContext& g) { return BatchNormGradient(g, "FusedBatchNormGradV3"); })
    .Doc(
        "(x - mean) / sqrt(variance + epsilon) * scale + offset for each channel. Where is_training, mean and variance "
        "are the batch's own; "
        "batch_mean and batch_variance are what to keep for later, the reserves are for the gradient.");

TROUPE_CPU_KERNEL("FusedBatchNormV3").Type<BFloat16, float>("U").Class<BatchNormKernel>();

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

TROUPE_CPU_KERNEL("FusedBatchNormGrad").Class<BatchNormGradKernel>();

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

TROUPE_CPU_KERNEL("FusedBatchNormGradV2").Type<float>("U").Class<BatchNormGradKernel>();

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

TROUPE_CPU_KERNEL("FusedBatchNormGradV3").Type<BFloat16, float>("U").Class<BatchNormGradKernel>();

}  // namespace
}  // namespace troupe
