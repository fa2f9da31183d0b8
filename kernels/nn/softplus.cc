// Softplus: log(1 + exp(features)).
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("Softplus")
    .Input("features: T")
    .Output("activations: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("SoftplusGrad", {g.Grad(0), g.Input(0)}));
      return g.status();
    })
    .Doc("log(1 + exp(features)), element by element, without overflow.");

TROUPE_KERNEL("Softplus")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationOf<Activation::kSoftplus>>();

}  // namespace
}  // namespace troupe
