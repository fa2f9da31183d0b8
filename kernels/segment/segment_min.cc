#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/segment/segment.h"

namespace troupe {

TROUPE_OP("SegmentMin")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Output("output: T")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
    .Attr("Tindices: {int32, int64}")
    .Shape(math::SegmentShape)
    .NotDifferentiable("only the sums and means of segments have a gradient")
    .Doc("The minimum of the rows of data that have the same segment id. Ids must not fall.");

TROUPE_KERNEL("SegmentMin").Device("CPU").Types("T", math::kReals).Factory(math::SegmentFactory<math::SegmentOp::kMin>);

}  // namespace troupe
