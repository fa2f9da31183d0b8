// Sliding windows: the attributes and the arithmetic that convolutions and poolings share.
//
// Attrs: strides, ksize and dilations have 4 entries in the order of data_format; padding is SAME,
// VALID or EXPLICIT with 8 explicit_paddings (before and after for each of the 4 dimensions).
// Windows slide over height and width only.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_NN_WINDOW_H_
#define TROUPE_KERNELS_NN_WINDOW_H_

#include <string>

#include "troupe/graph.h"

namespace troupe {

enum class Padding : uint8_t { kSame, kValid, kExplicit };

// Index 0 is the height, 1 the width.
struct WindowAttrs {
  bool channels_first = false;
  Padding padding = Padding::kValid;
  int64_t ksize[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  int64_t before[2] = {0, 0}, after[2] = {0, 0};  // of EXPLICIT

  int channel_dim() const { return channels_first ? 1 : 3; }
  int spatial_dim(int i) const { return (channels_first ? 2 : 1) + i; }
};

// Reads what the node has of strides, ksize, dilations, padding, explicit_paddings and data_format.
// INVALID_ARGUMENT for wrong lengths, strides or windows in the batch or channel dimension, and
// numbers below 1 (paddings: below 0).
absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node);
// The same for ksize and strides that are given as lists (MaxPoolV2's inputs).
absl::Status SetWindow(absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides, WindowAttrs* attrs);

// Where the windows lie along one dimension.
struct WindowExtent {
  int64_t in = 0, out = 0, before = 0, after = 0;
};
// INVALID_ARGUMENT when `window` is 0. As in TensorFlow's kernels, a window that does not fit gives
// no output when it exceeds the padded input by less than two strides, and INVALID_ARGUMENT
// ("Computed output size would be negative") when by more.
absl::StatusOr<WindowExtent> SlideWindow(const WindowAttrs& attrs, int which, int64_t in, int64_t window);
// The output size for shape functions: -1 when something is unknown, INVALID_ARGUMENT when it is
// known that no window fits.
absl::StatusOr<int64_t> SlideWindowSize(const WindowAttrs& attrs, int which, int64_t in, int64_t window);

// A 4-dimensional shape in the order of `attrs`.
template <class Shape>
Shape ImageShape(const WindowAttrs& attrs, int64_t n, int64_t h, int64_t w, int64_t c) {
  if (attrs.channels_first) return Shape({n, c, h, w});
  return Shape({n, h, w, c});
}

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_WINDOW_H_
