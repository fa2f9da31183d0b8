// NonMaxSuppressionV2: boxes that do not overlap, with a threshold that is an input.
#include "kernels/image/non_max_suppression.h"

namespace troupe::image {
namespace {

absl::Status Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx));
  return SetSelected(ctx, selected);
}

const OpRegistrar op = SelectionOp("NonMaxSuppressionV2", false)
                           .Shape(SelectionShape)
                           .Doc("As NonMaxSuppression, with iou_threshold as an input.");
TROUPE_KERNEL("NonMaxSuppressionV2")
    .Device("CPU")
    .Types("T", {DType::kHalf, DType::kFloat})
    .HostMemory("max_output_size")
    .Function<Compute>();

}  // namespace
}  // namespace troupe::image
