// FusedBatchNorm: batch normalisation (https://arxiv.org/abs/1502.03167) of images.
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

TROUPE_KERNEL("FusedBatchNorm").Device("CPU").Type<float>("T").Class<BatchNormKernel>();

}  // namespace
}  // namespace troupe
