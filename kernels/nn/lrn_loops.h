// The loops of local response normalisation over a row; one function per instruction level.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_NN_LRN_LOOPS_H_
#define TROUPE_KERNELS_NN_LRN_LOOPS_H_

#include <cstdint>

namespace troupe {

struct LrnTable {
  // sums[d] = x[d] + ... + x[d + 2 radius], added in this order. x has n + 2 radius elements.
  void (*windows)(const float* x, int64_t radius, float* sums, int64_t n);
  // sums[d] = bias + alpha * (the sum of the squares of x that are at most `radius` away).
  // `squares` has n + 2 radius elements, of which the first and the last `radius` are 0.
  void (*sums)(const float* x, int64_t radius, float bias, float alpha, float* squares, float* sums, int64_t n);
  // y = x * sums^-beta; y may be sums or x.
  void (*scale)(const float* x, const float* sums, float beta, float* y, int64_t n);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_LRN_LOOPS_H_
