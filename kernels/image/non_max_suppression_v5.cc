// NonMaxSuppressionV5: boxes that do not overlap, or whose scores are lowered where they do.
#include <algorithm>

#include "kernels/common/as_float.h"
#include "kernels/image/non_max_suppression.h"

namespace troupe::image {
namespace {

class NonMaxSuppressionV5 {
 public:
  explicit NonMaxSuppressionV5(KernelInit& init) : pad_(init.Attr<bool>("pad_to_max_output_size")) {}
  absl::Status Compute(KernelContext& ctx) {
    std::vector<float> left;
    TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx, &left));
    TROUPE_RETURN_IF_ERROR(SetSelected(ctx, selected, pad_ ? ctx.input(2).scalar<int32_t>() : -1));
    const auto n = static_cast<int64_t>(selected.size());
    const int64_t length = pad_ ? std::max<int64_t>(n, ctx.input(2).scalar<int32_t>()) : n;
    TROUPE_ASSIGN_OR_RETURN(Tensor scores, ctx.AllocateTemp(DType::kFloat, TensorShape({length})));
    std::copy(left.begin(), left.end(), scores.data<float>());
    std::fill(scores.data<float>() + n, scores.data<float>() + length, 0.0f);
    ctx.set_output(1, Narrowed(ctx, std::move(scores), ctx.output_type(1)));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const valid, ctx.AllocateOutput(2, TensorShape()));
    *valid->data<int32_t>() = static_cast<int32_t>(n);
    return absl::OkStatus();
  }

 private:
  const bool pad_;
};

TROUPE_OP("NonMaxSuppressionV5")
    .Input("boxes: T")
    .Input("scores: T")
    .Input("max_output_size: int32")
    .Input("iou_threshold: T")
    .Input("score_threshold: T")
    .Input("soft_nms_sigma: T")
    .Output("selected_indices: int32")
    .Output("selected_scores: T")
    .Output("valid_outputs: int32")
    .Attr("T: {half, float} = DT_FLOAT")
    .Attr("pad_to_max_output_size: bool = false")
    .Shape(PaddedSelectionShape)
    .NotDifferentiable(kWhyNoSelectionGradient)
    .Doc(
        "As NonMaxSuppressionV4, with the scores of the selected boxes. With soft_nms_sigma above 0 no box is left out "
        "for "
        "its overlap with\n"
        "one that was selected, but its score is multiplied by exp(-overlap^2 / (2 * soft_nms_sigma)).");
TROUPE_KERNEL("NonMaxSuppressionV5")
    .Device("CPU")
    .Types("T", {DType::kHalf, DType::kFloat})
    .HostMemory("max_output_size")
    .Class<NonMaxSuppressionV5>();

}  // namespace
}  // namespace troupe::image
