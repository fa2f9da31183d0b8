#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/segment/segment.h"

namespace troupe {

TROUPE_OP("UnsortedSegmentSum")
    .Input("data: T")
    .Input("segment_ids: Tindices")
    .Input("num_segments: Tnumsegments")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("Tindices: {int16, int32, int64}")
    .Attr("Tnumsegments: {int32, int64} = DT_INT32")
    .Shape(math::UnsortedSegmentShape)
    .Gradient([](GradientContext& g) -> absl::Status {
      // Every row gets the gradient of its segment, rows without one get zero.
      const NodeOut axis = g.Const(Tensor::Scalar(int32_t{0})), flat = g.Const(Tensor::Vector<int32_t>({-1}));
      const math::Value ids = math::Apply("Reshape", math::In(g, 1), {&g, flat}), zero = math::Number(ids, 0);
      const math::Value rows = {&g, g.Op("GatherV2", {g.Grad(0), math::Apply("Maximum", ids, zero).out, axis})};
      const NodeOut kept =
          g.Op("Select", {math::Apply("GreaterEqual", ids, zero).out, rows.out, math::Apply("ZerosLike", rows).out});
      g.Set(0, g.Op("Reshape", {kept, math::Apply("Shape", math::In(g, 0)).out}));
      return g.status();
    })
    .Doc("The sum of the rows of data that have the same segment id. Rows with negative ids are left out.");

TROUPE_KERNEL("UnsortedSegmentSum")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .HostMemory("num_segments")
    .Factory(math::UnsortedSegmentFactory<math::SegmentOp::kSum>);

}  // namespace troupe
