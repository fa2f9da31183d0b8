// Greedy selection of boxes: the one with the highest score first, and then those that do not
// overlap a selected one too much. Or softly: each overlap with a selected one lowers a box's
// score, and boxes are selected in the order of what is left.
//
// A box is [y1, x1, y2, x2], any two opposite corners. The overlap of two is the area of their
// intersection divided by that of their union; a box without area overlaps nothing. Of equal scores
// the box that comes first is taken first.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_IMAGE_NON_MAX_SUPPRESSION_H_
#define TROUPE_KERNELS_IMAGE_NON_MAX_SUPPRESSION_H_

#include <limits>
#include <vector>

#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::image {

inline constexpr char kWhyNoSelectionGradient[] = "indices are piecewise constant";

struct SelectionRule {
  float iou_threshold = 0;                                       // in [0, 1]; more overlap than this is too much
  float score_threshold = std::numeric_limits<float>::lowest();  // only scores above this count
  float sigma = 0;  // above 0: no overlap is too much, but scores are multiplied by exp(-overlap^2 / (2 sigma))
};
// Indices of the selected boxes, best first, and in `scores` what is left of their scores. Inputs
// 0, 1 and 2 are boxes [n, 4], scores [n] and how many may be selected.
absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, const SelectionRule& rule,
                                                 std::vector<float>* scores = nullptr);
// The same by the rule of inputs 3 and, where the op has them, 4 and 5.
absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, std::vector<float>* scores = nullptr);
// Output 0: the indices; with `padded_to` >= 0 that many, zeros behind those that were selected.
absl::Status SetSelected(KernelContext& ctx, const std::vector<int32_t>& selected, int64_t padded_to = -1);

// A definition with inputs of thresholds: that of the overlap and, from version 3 on, that of the
// scores. Without shape and doc.
OpBuilder SelectionOp(std::string_view name, bool score_threshold);
// Shape function: inputs checked, output 0 a vector of unknown length.
absl::Status SelectionShape(InferenceContext& c);
// The same where attr pad_to_max_output_size may fix the length, and the last output is how many
// there are; what is between is as output 0.
absl::Status PaddedSelectionShape(InferenceContext& c);

}  // namespace troupe::image

#endif  // TROUPE_KERNELS_IMAGE_NON_MAX_SUPPRESSION_H_
