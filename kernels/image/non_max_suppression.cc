// NonMaxSuppression: boxes that do not overlap, best scores first; and what its later versions share with it.
#include "troupe/kernels/image/non_max_suppression.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "troupe/kernels/nn/as_float.h"

namespace troupe::image {
namespace {

struct Box {
  float y1, x1, y2, x2, area;
};

Box ReadBox(const float* corners) {
  Box b = {std::min(corners[0], corners[2]), std::min(corners[1], corners[3]), std::max(corners[0], corners[2]),
           std::max(corners[1], corners[3]), 0};
  b.area = (b.y2 - b.y1) * (b.x2 - b.x1);
  return b;
}

float Overlap(const Box& a, const Box& b) {
  if (a.area <= 0 || b.area <= 0) return 0;
  const float height = std::max(std::min(a.y2, b.y2) - std::max(a.y1, b.y1), 0.0f);
  const float width = std::max(std::min(a.x2, b.x2) - std::max(a.x1, b.x1), 0.0f);
  const float common = height * width;
  return common / (a.area + b.area - common);
}

// The number in a scalar input of float or float16.
absl::StatusOr<float> Threshold(const KernelContext& ctx, int input) {
  const Tensor t = Widened(ctx.input(input));
  if (t.rank() != 0) return InvalidArgument("input ", input, " must be 0-D, got shape ", t.shape().DebugString());
  return t.scalar<float>();
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, float iou_threshold, float score_threshold) {
  const Tensor boxes = Widened(ctx.input(0)), scores = Widened(ctx.input(1));
  if (!(iou_threshold >= 0 && iou_threshold <= 1))
    return InvalidArgument("iou_threshold must be in [0, 1], not ", iou_threshold);
  if (boxes.rank() != 2 || boxes.dim(1) != 4)
    return InvalidArgument("boxes must be 2-D with 4 columns, got shape ", boxes.shape().DebugString());
  if (scores.rank() != 1 || scores.dim(0) != boxes.dim(0)) {
    return InvalidArgument("scores has incompatible shape: ", scores.shape().DebugString(), " for boxes ",
                           boxes.shape().DebugString());
  }
  if (ctx.input(2).rank() != 0)
    return InvalidArgument("max_output_size must be 0-D, got shape ", ctx.input(2).shape().DebugString());
  const int32_t most = ctx.input(2).scalar<int32_t>();
  if (most < 0) return InvalidArgument("output size must be non-negative, not ", most);
  if (boxes.dim(0) > std::numeric_limits<int32_t>::max()) return InvalidArgument("too many boxes: ", boxes.dim(0));

  const float* score = scores.data<float>();
  std::vector<int32_t> order(boxes.dim(0)), selected;
  std::iota(order.begin(), order.end(), 0);
  order.erase(std::remove_if(order.begin(), order.end(), [&](int32_t i) { return !(score[i] > score_threshold); }),
              order.end());
  std::stable_sort(order.begin(), order.end(), [score](int32_t a, int32_t b) { return score[a] > score[b]; });
  std::vector<Box> taken;
  for (const int32_t i : order) {
    if (static_cast<int32_t>(selected.size()) >= most || ctx.cancelled()) break;
    const Box box = ReadBox(boxes.data<float>() + 4 * int64_t{i});
    if (std::any_of(taken.rbegin(), taken.rend(), [&](const Box& t) { return Overlap(box, t) > iou_threshold; }))
      continue;
    taken.push_back(box);
    selected.push_back(i);
  }
  return selected;
}

absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const float iou, Threshold(ctx, 3));
  float score = std::numeric_limits<float>::lowest();
  if (ctx.num_inputs() > 4) {
    TROUPE_ASSIGN_OR_RETURN(score, Threshold(ctx, 4));
  }
  return SelectBoxes(ctx, iou, score);
}

absl::Status SetSelected(KernelContext& ctx, const std::vector<int32_t>& selected, int64_t padded_to) {
  const auto n = static_cast<int64_t>(selected.size());
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, TensorShape({std::max(n, padded_to)})));
  std::copy(selected.begin(), selected.end(), out->data<int32_t>());
  std::fill(out->data<int32_t>() + n, out->data<int32_t>() + out->num_elements(), 0);
  return absl::OkStatus();
}

OpBuilder SelectionOp(std::string_view name, bool score_threshold) {
  OpBuilder op(name);
  op.Input("boxes: T").Input("scores: T").Input("max_output_size: int32").Input("iou_threshold: T_threshold");
  if (score_threshold) op.Input("score_threshold: T_threshold");
  return op.Output("selected_indices: int32")
      .Attr("T: {half, float} = DT_FLOAT")
      .Attr("T_threshold: {half, float} = DT_FLOAT")
      .NotDifferentiable(kWhyNoSelectionGradient);
}

absl::Status SelectionShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape boxes, c.WithRank(0, 2));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape scores, c.WithRank(1, 1));
  for (int i = 2; i < c.num_inputs(); ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  if (boxes.known_rank()) {
    TROUPE_RETURN_IF_ERROR(MergeDims(boxes.dim(1), 4).status());
    if (scores.known_rank()) TROUPE_RETURN_IF_ERROR(MergeDims(boxes.dim(0), scores.dim(0)).status());
  }
  c.set_output(0, PartialTensorShape::OfRank(1));
  return absl::OkStatus();
}

namespace {

class NonMaxSuppression {
 public:
  explicit NonMaxSuppression(KernelInit& init) : iou_threshold_(init.Attr<float>("iou_threshold")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected,
                            SelectBoxes(ctx, iou_threshold_, std::numeric_limits<float>::lowest()));
    return SetSelected(ctx, selected);
  }

 private:
  const float iou_threshold_;
};

TROUPE_OP("NonMaxSuppression")
    .Input("boxes: float")
    .Input("scores: float")
    .Input("max_output_size: int32")
    .Output("selected_indices: int32")
    .Attr("iou_threshold: float = 0.5")
    .Shape(SelectionShape)
    .NotDifferentiable(kWhyNoSelectionGradient)
    .Doc(
        "The indices of at most max_output_size of the boxes [y1, x1, y2, x2], best scores first, without those that "
        "overlap a better\n"
        "one that was selected by more than iou_threshold, as a part of their union.");
TROUPE_KERNEL("NonMaxSuppression").Device("CPU").HostMemory("max_output_size").Class<NonMaxSuppression>();

}  // namespace
}  // namespace troupe::image
