// Choosing between two tensors by a bool: the loop under Select, SelectV2 and their like.
#ifndef TROUPE_KERNELS_ELEMENTWISE_SELECT_H_
#define TROUPE_KERNELS_ELEMENTWISE_SELECT_H_

#include "troupe/kernel.h"

namespace troupe::math {

// out[i] = c[i * c_step] ? t[i * t_step] : e[i * e_step] for n elements; steps are 0 or 1. `out`
// may be t or e where its step is 1.
using SelectLoop = void (*)(const bool* c, int c_step, const void* t, int t_step, const void* e, int e_step, void* out,
                            int64_t n);
// Null for a type that has no elements.
SelectLoop SelectLoopOf(DType type);
// Output 0 = condition ? input 1 : input 2, all broadcast to `shape`, which they must broadcast to.
// `condition` is input 0, maybe under another shape.
absl::Status SelectBroadcast(KernelContext& ctx, SelectLoop loop, const Tensor& condition, const TensorShape& shape);

// The types of TensorFlow's kernels.
std::vector<DType> SelectTypes();

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_SELECT_H_
