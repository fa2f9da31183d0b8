#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/segment/segment.h"

namespace troupe {

TROUPE_OP("SegmentMean")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("Tindices: {int32, int64}")
    .Shape(math::SegmentShape)
    .Gradient([](GradientContext& g) -> absl::Status {
      const NodeOut axis = g.Const(Tensor::Scalar(int32_t{0}));
      const math::Value rows = {&g, g.Op("SegmentSum", {math::Apply("OnesLike", math::In(g, 0)).out, g.Input(1)})};
      const math::Value scaled = math::Apply("DivNoNan", math::Grad(g), rows);
      g.Set(0, g.Op("GatherV2", {scaled.out, g.Input(1), axis}));
      return g.status();
    })
    .Doc("The mean of the rows of data that have the same segment id. Ids must not fall.");

TROUPE_KERNEL("SegmentMean")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .Factory(math::SegmentFactory<math::SegmentOp::kMean>);

}  // namespace troupe
