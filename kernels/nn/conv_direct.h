// float32 convolutions of few channels by the loops of conv_direct_isa.cc, on the calling thread.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_NN_CONV_DIRECT_H_
#define TROUPE_KERNELS_NN_CONV_DIRECT_H_

#include "kernels/nn/conv_epilogue.h"
#include "kernels/nn/conv_shape.h"

namespace troupe {

// Images that are computed together: work is best split in multiples of this.
inline constexpr int64_t kConvTogether = 4;

// Rows of the images that are written.
struct ConvRows {
  int64_t begin, end;
};

// False when the shape is not for these loops (groups, images or weights beyond the caches); then
// nothing was written. a, b and out as ConvPass says, NHWC and HWIO. The forward pass and the
// gradient of the input have the same bits however the images and rows are split into calls.
// isa_level: loops of a lower level than this process's own (2 or 3). REQUIRES: no dimension is 0.
bool DirectConv(ConvPass pass, const ConvShape& shape, const float* a, const float* b, float* out,
                const ConvEpilogue<float>& epilogue, int isa_level = 0);
// The same for some rows of all images. REQUIRES: pass is not the gradient of the filter, or the
// rows are all.
bool DirectConv(ConvPass pass, const ConvShape& shape, const float* a, const float* b, float* out,
                const ConvEpilogue<float>& epilogue, ConvRows rows, int isa_level = 0);
// Whether DirectConv takes the shape.
bool TakesDirectConv(const ConvShape& shape);
// Whether it does and is expected to beat the library: a rule fitted to measurements
// (docs/measurements/convolutions.md), since the ways round differently, and results must not
// depend on how busy the machine was. Who wants it measured where it runs: troupe/tuning.h.
bool PreferDirectConv(ConvPass pass, const ConvShape& shape);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_DIRECT_H_
