// The incomplete gamma integrals: Igamma (the lower one), Igammac (the upper one), and IgammaGradA,
// how the lower one moves with its parameter.
#include "kernels/common/grad_math.h"
#include "kernels/special/function_table.h"

namespace troupe::math {
namespace {

// The gradient of both: their values add up to 1, so their gradients differ in sign. `dy`: the
// gradient of Igamma(a, x), of inputs 0 and 1 of the node.
absl::Status IgammaGradient(GradientContext& g, const Value& dy) {
  const Value a = In(g, 0), x = In(g, 1);
  // In logarithms first, since gamma(a) can be large.
  const Value density = Apply("Exp", (Apply("Log", x) * (a - Number(a, 1))) - x - Apply("Lgamma", a));
  return SetBroadcast(g, dy * Apply("IgammaGradA", a, x), dy * density);
}

TROUPE_OP("Igamma")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return IgammaGradient(g, Grad(g)); })
    .Doc(
        "The integral of t^(a-1) e^-t from 0 to x, divided by gamma(a), with broadcasting; NaN unless a > 0 and x >= "
        "0.");

TROUPE_CPU_KERNEL("Igamma").Factory(BinaryFactory<TableOf<Igamma, 300>>);

TROUPE_OP("Igammac")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return IgammaGradient(g, -Grad(g)); })
    .Doc("The integral of t^(a-1) e^-t from x on, divided by gamma(a), with broadcasting: 1 - Igamma(a, x).");

TROUPE_CPU_KERNEL("Igammac").Factory(BinaryFactory<TableOf<Igammac, 300>>);

TROUPE_OP("IgammaGradA")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The derivative of Igamma(a, x) with respect to a, with broadcasting.");

TROUPE_CPU_KERNEL("IgammaGradA").Factory(BinaryFactory<TableOf<IgammaGradA, 500>>);

}  // namespace
}  // namespace troupe::math
