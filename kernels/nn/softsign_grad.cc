// SoftsignGrad: the gradient of Softsign.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("SoftsignGrad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::MergeAll)
    .NotDifferentiable("its gradient is not defined, as in TensorFlow")
    .Doc("gradients / (1 + abs(features))^2.");

TROUPE_KERNEL("SoftsignGrad")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationGradOf<Activation::kSoftsign>>();

}  // namespace
}  // namespace troupe
