// LeakyReluGrad: the gradient of LeakyRelu.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("LeakyReluGrad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("alpha: float = 0.2")
    .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) {
      // The gradient is piecewise constant in the features: nothing flows to them.
      g.Set(0, g.Op("LeakyReluGrad", {g.Grad(0), g.Input(1)}, {{"alpha", g.Attr<float>("alpha")}}));
      return g.status();
    })
    .Doc("gradients where features > 0, gradients * alpha elsewhere.");

TROUPE_KERNEL("LeakyReluGrad")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationGradOf<Activation::kLeakyRelu>>();

}  // namespace
}  // namespace troupe
