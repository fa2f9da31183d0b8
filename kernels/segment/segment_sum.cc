#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/segment/segment.h"

namespace troupe {

TROUPE_OP("SegmentSum")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Shape(math::SegmentShape)
    .Gradient([](GradientContext& g) -> absl::Status {
      // Every row of the data gets the gradient of its segment.
      const NodeOut axis = g.Const(Tensor::Scalar(int32_t{0}));
      g.Set(0, g.Op("GatherV2", {g.Grad(0), g.Input(1), axis}));
      return g.status();
    })
    .Doc("The sum of the rows of data that have the same segment id. Ids must not fall.");

TROUPE_KERNEL("SegmentSum")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .Factory(math::SegmentFactory<math::SegmentOp::kSum>);

}  // namespace troupe
