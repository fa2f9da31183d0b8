// NonMaxSuppressionV3: boxes that do not overlap and whose scores are above a threshold.
#include "troupe/kernels/image/non_max_suppression.h"

namespace troupe::image {
namespace {

absl::Status Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const float iou, Threshold(ctx, 3));
  TROUPE_ASSIGN_OR_RETURN(const float score, Threshold(ctx, 4));
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx, iou, score));
  return SetSelected(ctx, selected);
}

TROUPE_OP("NonMaxSuppressionV3")
    .Input("boxes: T")
    .Input("scores: T")
    .Input("max_output_size: int32")
    .Input("iou_threshold: T_threshold")
    .Input("score_threshold: T_threshold")
    .Output("selected_indices: int32")
    .Attr("T: {half, float} = DT_FLOAT")
    .Attr("T_threshold: {half, float} = DT_FLOAT")
    .Shape(SelectionShape)
    .NotDifferentiable(kWhyNoSelectionGradient)
    .Doc("As NonMaxSuppressionV2, for boxes whose scores are above score_threshold.");
TROUPE_KERNEL("NonMaxSuppressionV3")
    .Device("CPU")
    .Types("T", {DType::kHalf, DType::kFloat})
    .HostMemory("max_output_size")
    .Function<Compute>();

}  // namespace
}  // namespace troupe::image
