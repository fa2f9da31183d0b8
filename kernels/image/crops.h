// Cutting boxes out of images and resizing each cut: what CropAndResize and its gradients share.
//
// A box is [y1, x1, y2, x2], as parts of the image's extent: 0 is the middle of its first row
// (column), 1 that of the last. A crop's points are spread evenly from one side of the box to the
// other; a crop that is one point high (wide) looks at the middle. y2 < y1 turns the cut upside
// down. Points outside of the image have no value. Positions are float32, as TensorFlow's are:
// equal rounding gives equal points.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_IMAGE_CROPS_H_
#define TROUPE_KERNELS_IMAGE_CROPS_H_

#include <vector>

#include "kernels/image/resize.h"

namespace troupe::image {

struct Boxes {
  const float* corners = nullptr;   // four numbers a box
  const int32_t* images = nullptr;  // which image it is cut out of
  int64_t count = 0;
};
// Boxes at `input` and their images' numbers behind them, for `batch` images. INVALID_ARGUMENT
// "boxes must be 2-D with 4 columns", "box_index has incompatible shape", OUT_OF_RANGE "box_index
// has values outside [0, batch_size)".
absl::StatusOr<Boxes> BoxesAt(const KernelContext& ctx, int input, int64_t batch);

struct CropPoint {
  bool inside = false;
  int64_t lower = 0, upper = 0, nearest = 0;  // the rows (columns) beside it
  float lerp = 0;                             // how far it is from `lower`
};
// How far apart the points are, in rows (columns) of an image of `size`; 0 for one point.
float CropStep(float begin, float end, int64_t points, int64_t size);
std::vector<CropPoint> CropPoints(float begin, float end, float step, int64_t points, int64_t size);

// Shape functions check by this: boxes at `input`, their images' numbers behind them. How many
// there are, -1 when that is unknown.
absl::StatusOr<int64_t> CountBoxes(InferenceContext& c, int input);

}  // namespace troupe::image

#endif  // TROUPE_KERNELS_IMAGE_CROPS_H_
