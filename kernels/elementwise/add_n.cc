#include "kernels/elementwise/add_loops.h"

namespace troupe {

TROUPE_OP("AddN")
    .Input("inputs: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, "
        "quint16, uint16, complex128, half, uint32, uint64, variant}")
    .Commutative()
    .Aggregate()
    .Shape(shape_fn::MergeAll)
    .Gradient(math::AddNGradient)
    .Doc("The sum of tensors of one shape.");

TROUPE_KERNEL("AddN").Device("CPU").Types("T", math::kNumbers).Factory(math::MakeAddN);

}  // namespace troupe
