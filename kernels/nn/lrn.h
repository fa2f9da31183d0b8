// Local response normalisation: each element divided by a power of the squares of its neighbours in
// the innermost dimension.
//
//   sums[d]   = bias + alpha * (input[d - depth_radius]^2 + ... + input[d + depth_radius]^2), without what lies outside
//   output[d] = input[d] * sums[d]^-beta
#ifndef TROUPE_KERNELS_NN_LRN_H_
#define TROUPE_KERNELS_NN_LRN_H_

#include "troupe/kernel.h"

namespace troupe {

struct LrnAttrs {
  explicit LrnAttrs(KernelInit& init);
  int64_t radius;
  float bias, alpha, beta;
  // The sums of a row of `depth` elements.
  void Sums(const float* in, int64_t depth, float* sums) const;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_LRN_H_
