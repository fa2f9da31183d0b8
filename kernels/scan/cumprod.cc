#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/scan/scan.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status Gradient(GradientContext& g) {
  const bool exclusive = g.Attr<bool>("exclusive"), reverse = g.Attr<bool>("reverse");
  const math::Value x = math::In(g, 0), dy = math::Grad(g), axis = math::In(g, 1);
  const math::Value sum = {
      &g, g.Op("Cumsum", {(math::Out(g) * dy).out, axis.out}, {{"exclusive", exclusive}, {"reverse", !reverse}})};
  return math::SetUnary(g, math::Apply("DivNoNan", sum, x));
}

}  // namespace

TROUPE_OP("Cumprod")
    .Input("x: T")
    .Input("axis: Tidx")
    .Output("out: T")
    .Attr("exclusive: bool = false")
    .Attr("reverse: bool = false")
    .Attr("T: numbertype")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(shape_fn::Unchanged)
    .Gradient(Gradient)
    .Doc("Running products of x along an axis; exclusive leaves out the element itself, reverse starts from the end.");

TROUPE_KERNEL("Cumprod").Device("CPU").Types("T", math::kNumbers).HostMemory("axis").Factory(math::MakeCumprod);

}  // namespace troupe
