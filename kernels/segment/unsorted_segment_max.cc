#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/segment/segment.h"

namespace troupe {

TROUPE_OP("UnsortedSegmentMax")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Input("num_segments: Tnumsegments")
    .Output("output: T")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
    .Attr("Tindices: {int32, int64}")
    .Attr("Tnumsegments: {int32, int64} = DT_INT32")
    .Shape(math::UnsortedSegmentShape)
    .NotDifferentiable("only the sums and means of segments have a gradient")
    .Doc("The maximum of the rows of data that have the same segment id. Rows with negative ids are left out.");

TROUPE_KERNEL("UnsortedSegmentMax")
    .Device("CPU")
    .Types("T", math::kReals)
    .HostMemory("num_segments")
    .Factory(math::UnsortedSegmentFactory<math::SegmentOp::kMax>);

}  // namespace troupe
