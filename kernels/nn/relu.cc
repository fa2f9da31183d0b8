// Relu: max(features, 0).
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("Relu")
    .Input("features: T")
    .Output("activations: T")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("ReluGrad", {g.Grad(0), g.Output(0)}));
      return g.status();
    })
    .Doc("max(features, 0), element by element.");

TROUPE_KERNEL("Relu")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, BFloat16, uint16_t, Half, uint32_t, uint64_t>("T")
    .Class<ActivationOf<Activation::kRelu>>();

}  // namespace
}  // namespace troupe
