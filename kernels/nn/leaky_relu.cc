// LeakyRelu: a rectifier that leaks.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("LeakyRelu")
    .Input("features: T")
    .Output("activations: T")
    .Attr("alpha: float = 0.2")
    .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("LeakyReluGrad", {g.Grad(0), g.Input(0)}, {{"alpha", g.Attr<float>("alpha")}}));
      return g.status();
    })
    .Doc("features where they are positive, features * alpha elsewhere.");

TROUPE_KERNEL("LeakyRelu")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationOf<Activation::kLeakyRelu>>();

}  // namespace
}  // namespace troupe
