// Relu6Grad: the gradient of Relu6.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("Relu6Grad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
    .Shape(shape_fn::MergeAll)
    .Gradient(PiecewiseLinearGradGradient)
    .Doc("Lets gradients through where 0 < features < 6. features may be the input or the output of Relu6.");

TROUPE_KERNEL("Relu6Grad")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, BFloat16, uint16_t, Half, uint32_t, uint64_t>("T")
    .Class<ActivationGradOf<Activation::kRelu6>>();

}  // namespace
}  // namespace troupe
