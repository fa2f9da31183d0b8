// NonMaxSuppressionV3: boxes that do not overlap and whose scores are above a threshold.
#include "kernels/image/non_max_suppression.h"

namespace troupe::image {
namespace {

absl::Status Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx));
  return SetSelected(ctx, selected);
}

const OpRegistrar op = SelectionOp("NonMaxSuppressionV3", true)
                           .Shape(SelectionShape)
                           .Doc("As NonMaxSuppressionV2, for boxes whose scores are above score_threshold.");
TROUPE_KERNEL("NonMaxSuppressionV3")
    .Device("CPU")
    .Types("T", {DType::kHalf, DType::kFloat})
    .HostMemory("max_output_size")
    .Function<Compute>();

}  // namespace
}  // namespace troupe::image
