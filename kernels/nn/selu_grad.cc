// SeluGrad: the gradient of Selu.
#include "troupe/kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("SeluGrad")
    .Input("gradients: T")
    .Input("outputs: T")
    .Output("backprops: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) {
      const NodeOut y = g.Input(1);
      g.Set(0, g.Op("SeluGrad", {g.Grad(0), y}));
      const NodeOut negative = g.Op("Less", {y, g.ScalarLike(y, 0)});
      g.Set(1, g.Op("Select", {negative, g.Op("Mul", {g.Grad(0), g.Input(0)}), g.Op("ZerosLike", {y})}));
      return g.status();
    })
    .Doc(
        "gradients * (outputs + scale * alpha) where outputs < 0, gradients * scale elsewhere; outputs is what Selu "
        "gave.");

TROUPE_KERNEL("SeluGrad")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationGradOf<Activation::kSelu>>();

}  // namespace
}  // namespace troupe
