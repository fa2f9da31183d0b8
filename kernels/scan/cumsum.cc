#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/scan/scan.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status Gradient(GradientContext& g) {
  g.Set(0, g.Op("Cumsum", {g.Grad(0), g.Input(1)},
                {{"exclusive", g.Attr<bool>("exclusive")}, {"reverse", !g.Attr<bool>("reverse")}}));
  return g.status();
}

}  // namespace

TROUPE_OP("Cumsum")
    .Input("x: T")
    .Input("axis: Tidx")
    .Output("out: T")
    .Attr("exclusive: bool = false")
    .Attr("reverse: bool = false")
    .Attr("T: numbertype")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(shape_fn::Unchanged)
    .Gradient(Gradient)
    .Doc("Running sums of x along an axis; exclusive leaves out the element itself, reverse starts from the end.");

TROUPE_KERNEL("Cumsum").Device("CPU").Types("T", math::kNumbers).HostMemory("axis").Factory(math::MakeCumsum);

}  // namespace troupe
