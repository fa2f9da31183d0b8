// The loops of batch normalisation over a matrix [rows, channels]; one function per instruction
// level. Sums are kept in float64.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_NN_BATCH_NORM_LOOPS_H_
#define TROUPE_KERNELS_NN_BATCH_NORM_LOOPS_H_

#include <cstdint>

namespace troupe {

struct BatchNormTable {
  // sums[c] += sum of x.
  void (*sum)(const float* x, double* sums, int64_t rows, int64_t channels);
  // sums[c] += sum of (x - mean)^2.
  void (*sum_squares)(const float* x, const float* mean, double* sums, int64_t rows, int64_t channels);
  // sums[c] += sum of dy; products[c] += sum of dy * (x - mean).
  void (*sum_products)(const float* dy, const float* x, const float* mean, double* sums, double* products, int64_t rows,
                       int64_t channels);
  // y = (x - mean) * a + b; y may be x.
  void (*scale)(const float* x, const float* mean, const float* a, const float* b, float* y, int64_t rows,
                int64_t channels);
  // dx = dy * a + (x - mean) * b + d.
  void (*combine)(const float* dy, const float* x, const float* mean, const float* a, const float* b, const float* d,
                  float* dx, int64_t rows, int64_t channels);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_BATCH_NORM_LOOPS_H_
