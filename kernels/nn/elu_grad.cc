// EluGrad: the gradient of Elu.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("EluGrad")
    .Input("gradients: T")
    .Input("outputs: T")
    .Output("backprops: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::MergeAll)
    .Gradient(ExponentialGradGradient)
    .Doc("gradients * (outputs + 1) where outputs < 0, gradients elsewhere; outputs is what Elu gave.");

TROUPE_KERNEL("EluGrad")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationGradOf<Activation::kElu>>();

}  // namespace
}  // namespace troupe
