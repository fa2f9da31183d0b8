// Moving the channels of images: [n, rows, columns] -> [n, columns, rows]. NCHW to NHWC has rows =
// C, columns = H * W; back, the other way round.
//
// Thread rule: any thread; the work is shared out among compute threads, and done when the call
// returns.
#ifndef TROUPE_KERNELS_NN_LAYOUT_H_
#define TROUPE_KERNELS_NN_LAYOUT_H_

#include <string>

#include "troupe/kernel.h"

namespace troupe {

// `element` bytes each: 1, 2, 4, 8 or 16.
void SwapLastTwo(ComputeThreads* threads, size_t element, int64_t n, int64_t rows, int64_t columns, const void* from,
                 void* to);

// A new tensor, of the device's memory, with the channels last (first) of a 4-dimensional one that
// has them first (last). std::bad_alloc when there is no memory.
Tensor ChannelsLast(const KernelContext& ctx, const Tensor& nchw);
Tensor ChannelsToFront(const KernelContext& ctx, const Tensor& nhwc);

// True when attr data_format says that the channels are dimension 1.
inline bool ChannelsFirst(const Node& node) {
  const absl::StatusOr<std::string> format = node.Attr<std::string>("data_format");
  return format.ok() && format->rfind("NC", 0) == 0;
}

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_LAYOUT_H_
