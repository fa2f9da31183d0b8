#include "kernels/common/grad_math.h"
#include "kernels/elementwise/add_loops.h"

namespace troupe {

TROUPE_OP("AddV2")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, int64, complex64, "
        "complex128}")
    .Commutative()
    .Aggregate()
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return math::SetBroadcast(g, math::Grad(g), math::Grad(g)); })
    .Doc("x + y with broadcasting; integers wrap around.");

TROUPE_KERNEL("AddV2").Device("CPU").Types("T", math::kNumbers).Factory(math::BinaryFactory<math::AddTable>);

}  // namespace troupe
