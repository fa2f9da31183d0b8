// Bicubic resizing: the four rows (columns) that each one of the result is mixed of, and their
// weights.
//
// The cubic is a table of 1024 steps, as in TensorFlow: with a = -0.75, and -0.5 (Keys) with
// half_pixel_centers. A neighbour beyond the edge is the edge itself; with half_pixel_centers it
// has no weight, and the others are scaled to a sum of 1.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_IMAGE_BICUBIC_H_
#define TROUPE_KERNELS_IMAGE_BICUBIC_H_

#include <vector>

#include "kernels/image/resize.h"

namespace troupe::image {

struct CubicPoint {
  int64_t index[4];
  float weight[4];
};
std::vector<CubicPoint> CubicPoints(int64_t in, int64_t out, const ResizeAttrs& attrs);

}  // namespace troupe::image

#endif  // TROUPE_KERNELS_IMAGE_BICUBIC_H_
