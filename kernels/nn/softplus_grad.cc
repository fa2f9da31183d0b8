// SoftplusGrad: the gradient of Softplus.
#include "kernels/nn/activation.h"

namespace troupe {
namespace {

TROUPE_OP("SoftplusGrad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) {
      const NodeOut dy = g.Input(0), x = g.Input(1);
      g.Set(0, g.Op("SoftplusGrad", {g.Grad(0), x}));
      const NodeOut e = g.Op("Exp", {x}), e_minus = g.Op("Exp", {g.Op("Neg", {x})});
      const NodeOut slope = g.Op("Add", {g.Op("Add", {e_minus, g.ScalarLike(x, 2)}), e});
      g.Set(1, g.Op("RealDiv", {g.Op("Mul", {g.Grad(0), dy}), slope}));
      return g.status();
    })
    .Doc("gradients / (1 + exp(-features)).");

TROUPE_KERNEL("SoftplusGrad")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ActivationGradOf<Activation::kSoftplus>>();

}  // namespace
}  // namespace troupe
