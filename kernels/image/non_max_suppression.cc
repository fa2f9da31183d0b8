// NonMaxSuppression: boxes that do not overlap, best scores first; and what its later versions
// share with it.
#include "kernels/image/non_max_suppression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/as_float.h"

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
  const Tensor t = Widened(ctx, ctx.input(input));
  if (t.rank() != 0) return InvalidArgument("input ", input, " must be 0-D, got shape ", t.shape().DebugString());
  return t.scalar<float>();
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, const SelectionRule& rule,
                                                 std::vector<float>* left) {
  const Tensor boxes = Widened(ctx, ctx.input(0)), scores = Widened(ctx, ctx.input(1));
  if (!(rule.iou_threshold >= 0 && rule.iou_threshold <= 1))
    return InvalidArgument("iou_threshold must be in [0, 1], not ", rule.iou_threshold);
  if (!(rule.sigma >= 0)) return InvalidArgument("soft_nms_sigma must be non-negative, not ", rule.sigma);
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

  // A candidate whose score was lowered stands in line again; it is compared with each selected box
  // once.
  struct Candidate {
    int32_t box;
    float score;
    size_t compared;
  };
  const auto behind = [](const Candidate& a, const Candidate& b) {
    return a.score < b.score || (a.score == b.score && a.box > b.box);
  };
  std::vector<Candidate> line;
  for (int32_t i = 0; i < static_cast<int32_t>(boxes.dim(0)); ++i) {
    if (const float score = scores.data<float>()[i]; score > rule.score_threshold) line.push_back({i, score, 0});
  }
  std::make_heap(line.begin(), line.end(), behind);
  std::vector<int32_t> selected;
  std::vector<Box> taken;
  while (static_cast<int64_t>(selected.size()) < most && !line.empty() && !ctx.cancelled()) {
    std::pop_heap(line.begin(), line.end(), behind);
    Candidate c = line.back();
    line.pop_back();
    const Box box = ReadBox(boxes.data<float>() + 4 * int64_t{c.box});
    const float before = c.score;
    bool suppressed = false;
    for (size_t k = taken.size(); k-- > c.compared && !suppressed;) {
      const float overlap = Overlap(box, taken[k]);
      if (rule.sigma > 0) {
        c.score *= std::exp(-0.5f / rule.sigma * overlap * overlap);
        suppressed = !(c.score > rule.score_threshold);
      } else {
        suppressed = overlap > rule.iou_threshold;
      }
    }
    if (suppressed) continue;
    c.compared = taken.size();
    if (c.score != before) {
      line.push_back(c);
      std::push_heap(line.begin(), line.end(), behind);
      continue;
    }
    taken.push_back(box);
    selected.push_back(c.box);
    if (left != nullptr) left->push_back(c.score);
  }
  return selected;
}

absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, std::vector<float>* scores) {
  SelectionRule rule;
  float* const parts[] = {&rule.iou_threshold, &rule.score_threshold, &rule.sigma};
  for (int i = 3; i < ctx.num_inputs(); ++i) {
    TROUPE_ASSIGN_OR_RETURN(*parts[i - 3], Threshold(ctx, i));
  }
  return SelectBoxes(ctx, rule, scores);
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

absl::Status PaddedSelectionShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(SelectionShape(c));
  TROUPE_ASSIGN_OR_RETURN(const bool pad, c.Attr<bool>("pad_to_max_output_size"));
  PartialTensorShape out = PartialTensorShape::OfRank(1);
  if (const Tensor* most = c.input_tensor(2); pad && most != nullptr && most->scalar<int32_t>() >= 0)
    out.set_dim(0, most->scalar<int32_t>());
  for (int i = 0; i + 1 < c.num_outputs(); ++i) c.set_output(i, out);
  c.set_output(c.num_outputs() - 1, PartialTensorShape(TensorShape()));
  return absl::OkStatus();
}

namespace {

class NonMaxSuppression {
 public:
  explicit NonMaxSuppression(KernelInit& init) : iou_threshold_(init.Attr<float>("iou_threshold")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx, SelectionRule{iou_threshold_}));
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
