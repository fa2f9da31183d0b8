// FusedBatchNormV2: batch normalisation (https://arxiv.org/abs/1502.03167) of images.
#include "kernels/nn/batch_norm.h"

namespace troupe {
namespace {

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

TROUPE_KERNEL("FusedBatchNormV2")
    .Device("CPU")
    .Type<Half, BFloat16, float>("T")
    .Type<float>("U")
    .Class<BatchNormKernel>();

}  // namespace
}  // namespace troupe
