#include "kernels/elementwise/add_loops.h"

namespace troupe {

TROUPE_OP("AccumulateNV2")
    .Input("inputs: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr("T: numbertype")
    .Attr("shape: shape")
    .Commutative()
    .Aggregate()
    .Shape(shape_fn::FromShapeAttr)
    .Gradient(math::AddNGradient)
    .Doc("The sum of tensors of one shape, which the attr shape declares.");

TROUPE_KERNEL("AccumulateNV2").Device("CPU").Types("T", math::kNumbers).Factory(math::MakeAddN);

}  // namespace troupe
