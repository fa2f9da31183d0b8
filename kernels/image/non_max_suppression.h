// Greedy selection of boxes: the one with the highest score first, and then those that do not overlap a selected one too much.
//
// A box is [y1, x1, y2, x2], any two opposite corners. The overlap of two is the area of their intersection divided by that of their union;
// a box without area overlaps nothing. Of equal scores the box that comes first is taken first.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_IMAGE_NON_MAX_SUPPRESSION_H_
#define TROUPE_KERNELS_IMAGE_NON_MAX_SUPPRESSION_H_

#include <vector>

#include "troupe/graph/ir/op_def.h"
#include "troupe/graph/ir/shape_inference.h"
#include "troupe/kernels/kernel.h"

namespace troupe::image {

inline constexpr char kWhyNoSelectionGradient[] = "indices are piecewise constant";

// Indices of the selected boxes, best first. Inputs 0, 1 and 2 are boxes [n, 4], scores [n] and how many may be selected; only scores above
// `score_threshold` count.
absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx, float iou_threshold, float score_threshold);
// The same, with the thresholds as inputs 3 and, where the op has it, 4.
absl::StatusOr<std::vector<int32_t>> SelectBoxes(const KernelContext& ctx);
// Output 0: the indices; with `padded_to` >= 0 that many, zeros behind those that were selected.
absl::Status SetSelected(KernelContext& ctx, const std::vector<int32_t>& selected, int64_t padded_to = -1);

// A definition with inputs of thresholds: that of the overlap and, from version 3 on, that of the scores. Without shape and doc.
OpBuilder SelectionOp(std::string_view name, bool score_threshold);
// Shape function: inputs checked, output 0 a vector of unknown length.
absl::Status SelectionShape(InferenceContext& c);

}  // namespace troupe::image

#endif  // TROUPE_KERNELS_IMAGE_NON_MAX_SUPPRESSION_H_
