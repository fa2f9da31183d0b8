// Softsign: features / (1 + |features|).
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("Softsign")
    .Input("features: T")
    .Output("activations: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("SoftsignGrad", {g.Grad(0), g.Input(0)}));
      return g.status();
    })
    .Doc("features / (abs(features) + 1), element by element.");

TROUPE_KERNEL("Softsign")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationOf<Activation::kSoftsign>>();

}  // namespace
}  // namespace troupe
