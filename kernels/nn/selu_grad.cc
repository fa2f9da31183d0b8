// SeluGrad: the gradient of Selu.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("SeluGrad")
    .Input("gradients: T")
    .Input("outputs: T")
    .Output("backprops: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::MergeAll)
    .Gradient(ExponentialGradGradient)
    .Doc(
        "gradients * (outputs + scale * alpha) where outputs < 0, gradients * scale elsewhere; outputs is what Selu "
        "gave.");

TROUPE_KERNEL("SeluGrad")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationGradOf<Activation::kSelu>>();

}  // namespace
}  // namespace troupe
