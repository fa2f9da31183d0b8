// Adding a vector along the channels of a tensor, and the sum over everything but the channels: the
// computing half of BiasAdd, BiasAddV1 and BiasAddGrad, for every numeric dtype.
//
// Thread rule: any thread; the work is shared out among `threads`, and done when the call returns.
#ifndef TROUPE_KERNELS_NN_BIAS_H_
#define TROUPE_KERNELS_NN_BIAS_H_

#include "troupe/compute_threads.h"
#include "troupe/tensor.h"

namespace troupe {

// A tensor seen as [outer, channels, inner]; inner is 1 when the channels come last.
struct ChannelView {
  int64_t outer = 1, channels = 1, inner = 1;
};
// `t` with the channels in dimension 1 (`channels_first`) or the last one. REQUIRES: rank >= 1
// (2 for channels_first with rank > 1).
ChannelView ViewChannels(const Tensor& t, bool channels_first);

// y = x + bias. `y` has the shape and dtype of `x` and may be its buffer. dtype: any number, no
// small float.
void AddBias(ComputeThreads* threads, DType dtype, const ChannelView& view, const void* x, const void* bias, void* y);
// sums[c] = the sum of x over all but the channels. float32 is summed in short runs whose sums are
// added in float64.
void SumChannels(ComputeThreads* threads, DType dtype, const ChannelView& view, const void* x, void* sums);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_BIAS_H_
