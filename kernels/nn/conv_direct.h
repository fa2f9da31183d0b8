// float32 convolutions of few channels by the loops of conv_direct_isa.cc, on the calling thread.
#ifndef TROUPE_KERNELS_NN_CONV_DIRECT_H_
#define TROUPE_KERNELS_NN_CONV_DIRECT_H_

#include "troupe/kernels/nn/conv_epilogue.h"
#include "troupe/kernels/nn/conv_shape.h"

namespace troupe {

// False when the shape is not for these loops (too many channels, groups, dilations); then nothing was written. a, b and out as ConvPass says, NHWC and HWIO.
bool DirectConv(ConvPass pass, const ConvShape& shape, const float* a, const float* b, float* out, const ConvEpilogue<float>& epilogue);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_DIRECT_H_
