// Elu: the exponential linear unit.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("Elu")
    .Input("features: T")
    .Output("activations: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("EluGrad", {g.Grad(0), g.Output(0)}));
      return g.status();
    })
    .Doc("exp(features) - 1 where features < 0, features elsewhere (https://arxiv.org/abs/1511.07289).");

TROUPE_KERNEL("Elu").Device("CPU").Type<Half, BFloat16, float, double>("T").Class<ActivationOf<Activation::kElu>>();

}  // namespace
}  // namespace troupe
