// NonMaxSuppression and its versions 2 to 5.
//
// Greedy selection of boxes: the one with the highest score first, and then those that do not
// overlap a selected one too much. Or softly: each overlap with a selected one lowers a box's
// score, and boxes are selected in the order of what is left.
//
// A box is [y1, x1, y2, x2], any two opposite corners. The overlap of two is the area of their
// intersection divided by that of their union; a box without area overlaps nothing. Of equal scores
// the box that comes first is taken first.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/types.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::image {
namespace {

constexpr char kWhyNoSelectionGradient[] = "indices are piecewise constant";

struct SelectionRule {
  float iou_threshold = 0;                                       // in [0, 1]; more overlap than this is too much
  float score_threshold = std::numeric_limits<float>::lowest();  // only scores above this count
  float sigma = 0;  // above 0: no overlap is too much, but scores are multiplied by exp(-overlap^2 / (2 sigma))
};

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

// Indices of the selected boxes, best first, and in `left` what is left of their scores. Inputs 0,
// 1 and 2 are boxes [n, 4], scores [n] and how many may be selected.
absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, const SelectionRule& rule,
                                                 std::vector<float>* left = nullptr) {
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

// The same by the rule of inputs 3 and, where the op has them, 4 and 5.
absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, std::vector<float>* left = nullptr) {
  SelectionRule rule;
  float* const parts[] = {&rule.iou_threshold, &rule.score_threshold, &rule.sigma};
  for (int i = 3; i < ctx.num_inputs(); ++i) {
    TROUPE_ASSIGN_OR_RETURN(*parts[i - 3], Threshold(ctx, i));
  }
  return SelectBoxes(ctx, rule, left);
}

// Output 0: the indices; with `padded_to` >= 0 that many, zeros behind those that were selected.
absl::Status SetSelected(KernelContext& ctx, const std::vector<int32_t>& selected, int64_t padded_to = -1) {
  const auto n = static_cast<int64_t>(selected.size());
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, TensorShape({std::max(n, padded_to)})));
  std::copy(selected.begin(), selected.end(), out->data<int32_t>());
  std::fill(out->data<int32_t>() + n, out->data<int32_t>() + out->num_elements(), 0);
  return absl::OkStatus();
}

// A definition with inputs of thresholds: that of the overlap and, from version 3 on, that of the
// scores. Without shape and doc.
OpBuilder SelectionOp(std::string_view name, bool score_threshold) {
  OpBuilder op(name);
  op.Input("boxes: T").Input("scores: T").Input("max_output_size: int32").Input("iou_threshold: T_threshold");
  if (score_threshold) op.Input("score_threshold: T_threshold");
  return op.Output("selected_indices: int32")
      .Attr("T: {half, float} = DT_FLOAT")
      .Attr("T_threshold: {half, float} = DT_FLOAT")
      .NotDifferentiable(kWhyNoSelectionGradient);
}

// Shape function: inputs checked, output 0 a vector of unknown length.
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

// The same where attr pad_to_max_output_size may fix the length, and the last output is how many
// there are; what is between is as output 0.
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

// NonMaxSuppressionV2 and NonMaxSuppressionV3.
absl::Status ComputeSelection(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx));
  return SetSelected(ctx, selected);
}

const OpRegistrar non_max_suppression_v2 = SelectionOp("NonMaxSuppressionV2", false)
                                               .Shape(SelectionShape)
                                               .Doc("As NonMaxSuppression, with iou_threshold as an input.");
TROUPE_CPU_KERNEL("NonMaxSuppressionV2").HostMemory("max_output_size").Function<ComputeSelection>();

const OpRegistrar non_max_suppression_v3 =
    SelectionOp("NonMaxSuppressionV3", true)
        .Shape(SelectionShape)
        .Doc("As NonMaxSuppressionV2, for boxes whose scores are above score_threshold.");
TROUPE_CPU_KERNEL("NonMaxSuppressionV3").HostMemory("max_output_size").Function<ComputeSelection>();

class NonMaxSuppressionV4 {
 public:
  explicit NonMaxSuppressionV4(KernelInit& init) : pad_(init.Attr<bool>("pad_to_max_output_size")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::vector<int32_t> selected, SelectBoxes(ctx));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const valid, ctx.AllocateOutput(1, TensorShape()));
    *valid->data<int32_t>() = static_cast<int32_t>(selected.size());
    return SetSelected(ctx, selected, pad_ ? ctx.input(2).scalar<int32_t>() : -1);
  }

 private:
  const bool pad_;
};

const OpRegistrar non_max_suppression_v4 =
    SelectionOp("NonMaxSuppressionV4", true)
        .Output("valid_outputs: int32")
        .Attr("pad_to_max_output_size: bool = false")
        .Shape(PaddedSelectionShape)
        .Doc(
            "As NonMaxSuppressionV3, with the number of selected boxes; with pad_to_max_output_size zeros stand behind "
            "their indices.");
TROUPE_CPU_KERNEL("NonMaxSuppressionV4").HostMemory("max_output_size").Class<NonMaxSuppressionV4>();

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
        "for its overlap with\n"
        "one that was selected, but its score is multiplied by exp(-overlap^2 / (2 * soft_nms_sigma)).");
TROUPE_CPU_KERNEL("NonMaxSuppressionV5").HostMemory("max_output_size").Class<NonMaxSuppressionV5>();

}  // namespace
}  // namespace troupe::image
