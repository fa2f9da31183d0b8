// float32 convolutions with windows of one pixel, which are products of matrices, by the loops of
// kernels/product/gemm_f32.h.
//
// Problem: the pixels of a batch lie one after the other, so an input is a matrix [pixels, c] and
// the filter one [c, oc]; with few channels a library that arranges them anew takes longer than our
// loops, which take them as they lie.
//
// Thread rule: reentrant; the caller's thread only. Forward and the gradient of the input have the
// same bits however the images are split into calls.
#ifndef TROUPE_KERNELS_NN_CONV_POINTWISE_H_
#define TROUPE_KERNELS_NN_CONV_POINTWISE_H_

#include "kernels/nn/conv_epilogue.h"
#include "kernels/nn/conv_shape.h"

namespace troupe {

// Whether PointwiseConv takes the shape.
bool TakesPointwiseConv(const ConvShape& shape);
// Whether it does and is expected to beat oneDNN and DirectConv: a rule
// fitted to measurements (docs/measurements/convolutions.md). It does not look at n.
bool PreferPointwiseConv(ConvPass pass, const ConvShape& shape, const ConvEpilogue<float>& epilogue);

// a, b and out as ConvPass says, NHWC and HWIO. REQUIRES: windows of one pixel, stride 1, one
// group, no padding; no dimension is 0.
void PointwiseConv(ConvPass pass, const ConvShape& shape, const float* a, const float* b, float* out,
                   const ConvEpilogue<float>& epilogue);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_POINTWISE_H_
