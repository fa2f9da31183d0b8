// PreventGradient: its input; asking for a gradient through it is an error that says why.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status RefuseGradient(GradientContext& g) {
  return InvalidArgument("gradient explicitly disabled; reason: ", g.Attr<std::string>("message"));
}

TROUPE_OP("PreventGradient")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("message: string = ''")
    .Shape(shape_fn::Unchanged)
    .Gradient(RefuseGradient)
    .Doc("The input. A request for gradients through it fails with `message`.");
TROUPE_KERNEL("PreventGradient").Device("CPU").Function<PassOn, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
