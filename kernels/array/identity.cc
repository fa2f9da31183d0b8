// Identity: its input. A reference that arrives here has become the variable's value on the way
// (input T is a value), so this is also how a variable is read.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

TROUPE_OP("Identity")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SameAsInput)
    .Gradient(PassOnGradient)
    .Doc("The input, with the same shape and contents.");
TROUPE_KERNEL("Identity").Device("CPU").Function<PassOn, Cost::kTrivial>();

TROUPE_OP("Snapshot")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(shape_fn::Unchanged)
    .Gradient(PassOnGradient)
    .Doc("The input's value at this moment. Values never change under their readers here, so this is Identity.");
TROUPE_KERNEL("Snapshot").Device("CPU").Function<PassOn, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
