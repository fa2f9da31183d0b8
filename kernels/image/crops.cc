#include "kernels/image/crops.h"

#include <algorithm>
#include <cmath>

namespace troupe::image {

absl::StatusOr<Boxes> BoxesAt(const KernelContext& ctx, int input, int64_t batch) {
  const Tensor &corners = ctx.input(input), &images = ctx.input(input + 1);
  if (corners.num_elements() == 0 && images.num_elements() == 0) return Boxes();
  if (corners.rank() != 2 || corners.dim(1) != 4)
    return InvalidArgument("boxes must be 2-D with 4 columns, got shape ", corners.shape().DebugString());
  if (images.rank() != 1 || images.dim(0) != corners.dim(0)) {
    return InvalidArgument("box_index has incompatible shape: ", images.shape().DebugString(), " for boxes ",
                           corners.shape().DebugString());
  }
  const Boxes boxes = {corners.data<float>(), images.data<int32_t>(), images.dim(0)};
  if (std::any_of(boxes.images, boxes.images + boxes.count, [batch](int32_t i) { return i < 0 || i >= batch; }))
    return OutOfRange("box_index has values outside [0, batch_size)");
  return boxes;
}

float CropStep(float begin, float end, int64_t points, int64_t size) {
  return points > 1 ? (end - begin) * static_cast<float>(size - 1) / static_cast<float>(points - 1) : 0;
}

std::vector<CropPoint> CropPoints(float begin, float end, float step, int64_t points, int64_t size) {
  std::vector<CropPoint> all(points);
  const auto last = static_cast<float>(size - 1);
  for (int64_t i = 0; i < points; ++i) {
    const float at =
        points > 1 ? begin * last + static_cast<float>(i) * step : static_cast<float>(0.5 * (begin + end) * last);
    // Written so that a position that is no number is outside.
    if (!(at >= 0 && at <= last)) continue;
    const float floor = std::floor(at);
    all[i] = {true, static_cast<int64_t>(floor), static_cast<int64_t>(std::ceil(at)),
              static_cast<int64_t>(std::round(at)), at - floor};
  }
  return all;
}

absl::StatusOr<int64_t> CountBoxes(InferenceContext& c, int input) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape boxes, c.WithRank(input, 2));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape images, c.WithRank(input + 1, 1));
  if (!boxes.known_rank()) return images.known_rank() ? images.dim(0) : -1;
  TROUPE_RETURN_IF_ERROR(MergeDims(boxes.dim(1), 4).status());
  return images.known_rank() ? MergeDims(boxes.dim(0), images.dim(0)) : boxes.dim(0);
}

}  // namespace troupe::image
