// StopGradient: its input, through which no gradient flows.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

TROUPE_OP("StopGradient")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SameAsInput)
    .Gradient(NoGradientFlows)
    .Doc("The input; for gradients its output is a constant.");
TROUPE_KERNEL("StopGradient").Device("CPU").Function<PassOn, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
