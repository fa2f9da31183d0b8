// Selu: the scaled exponential linear unit.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("Selu")
    .Input("features: T")
    .Output("activations: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("SeluGrad", {g.Grad(0), g.Output(0)}));
      return g.status();
    })
    .Doc(
        "scale * alpha * (exp(features) - 1) where features < 0, scale * features elsewhere, with scale = 1.0507 and "
        "alpha = 1.6733, which keep activations normalised (https://arxiv.org/abs/1706.02515).");

TROUPE_KERNEL("Selu").Device("CPU").Type<Half, BFloat16, float, double>("T").Class<ActivationOf<Activation::kSelu>>();

}  // namespace
}  // namespace troupe
