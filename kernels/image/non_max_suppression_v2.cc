// NonMaxSuppressionV2: boxes that do not overlap, with a threshold that is an input.
#include <limits>

#include "troupe/kernels/image/non_max_suppression.h"

namespace troupe::image {
namespace {

absl::Status Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const float iou, Threshold(ctx, 3));
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected,
                          SelectBoxes(ctx, iou, std::numeric_limits<float>::lowest()));
  return SetSelected(ctx, selected);
}

TROUPE_OP("NonMaxSuppressionV2")
    .Input("boxes: T")
    .Input("scores: T")
    .Input("max_output_size: int32")
    .Input("iou_threshold: T_threshold")
    .Output("selected_indices: int32")
    .Attr("T: {half, float} = DT_FLOAT")
    .Attr("T_threshold: {half, float} = DT_FLOAT")
    .Shape(SelectionShape)
    .NotDifferentiable(kWhyNoSelectionGradient)
    .Doc("As NonMaxSuppression, with iou_threshold as an input.");
TROUPE_KERNEL("NonMaxSuppressionV2")
    .Device("CPU")
    .Types("T", {DType::kHalf, DType::kFloat})
    .HostMemory("max_output_size")
    .Function<Compute>();

}  // namespace
}  // namespace troupe::image
