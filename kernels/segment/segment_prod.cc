#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/segment/segment.h"

namespace troupe {

TROUPE_OP("SegmentProd")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Shape(math::SegmentShape)
    .NotDifferentiable("only the sums and means of segments have a gradient")
    .Doc("The product of the rows of data that have the same segment id. Ids must not fall.");

TROUPE_KERNEL("SegmentProd")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .Factory(math::SegmentFactory<math::SegmentOp::kProd>);

}  // namespace troupe
