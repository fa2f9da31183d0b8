// Resizing images: the attrs, the sizes and the arithmetic that all ways of resizing share.
//
// Images are [batch, height, width, channels]. An output pixel i looks at the input at i * scale,
// with scale = in / out; with align_corners at scale = (in - 1) / (out - 1), so that corners meet
// corners; with half_pixel_centers at (i + 0.5) * scale - 0.5, so that pixels have extent.
// Positions are float32, as TensorFlow's are: equal rounding gives equal pixels.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_IMAGE_RESIZE_H_
#define TROUPE_KERNELS_IMAGE_RESIZE_H_

#include <vector>

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::image {

struct ResizeAttrs {
  // An op without half_pixel_centers has it false. Refuses align_corners together with
  // half_pixel_centers.
  explicit ResizeAttrs(KernelInit& init);
  bool align_corners, half_pixel_centers;
};

struct ImageSize {
  int64_t batch = 0, height = 0, width = 0, channels = 0;
};
// The images at `input`. INVALID_ARGUMENT unless they have rank 4.
absl::StatusOr<ImageSize> ImagesAt(const KernelContext& ctx, int input);
// `size` (input 1: height and width) for output images of `in`. INVALID_ARGUMENT "input must be
// 4-dimensional", "size must be a vector of two elements", "output dimensions must be positive",
// "input image must be of non-zero size".
absl::StatusOr<ImageSize> ResizedSize(const KernelContext& ctx, const ImageSize& in);

float ResizeScale(int64_t in, int64_t out, const ResizeAttrs& attrs);

// Where each output row (column) lies between two input rows (columns): at lower + lerp.
struct Between {
  int64_t lower, upper;
  float lerp;
};
std::vector<Between> Interpolate(int64_t in, int64_t out, const ResizeAttrs& attrs);
// Which input row (column) each output row (column) is nearest to.
std::vector<int64_t> Nearest(int64_t in, int64_t out, const ResizeAttrs& attrs);

// Shape function: images at input 0, size at input 1.
absl::Status ResizeShape(InferenceContext& c);

// Of gradients with inputs (grads, original_image): the shape function, and INVALID_ARGUMENT when
// they differ in batch or channels.
absl::Status ResizeGradShape(InferenceContext& c);
absl::Status CheckResizeGrad(const KernelContext& ctx, const ImageSize& from, const ImageSize& to);

}  // namespace troupe::image

#endif  // TROUPE_KERNELS_IMAGE_RESIZE_H_
