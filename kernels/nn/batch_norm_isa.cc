// Batch normalisation, row by row with the channels as lanes.
#include "kernels/nn/batch_norm_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

void Sum(const float* x, double* sums, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(x[c]);
  }
}

void SumSquares(const float* x, const float* mean, double* sums, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const double d = static_cast<double>(x[c] - mean[c]);
      sums[c] += d * d;
    }
  }
}

void SumProducts(const float* dy, const float* x, const float* mean, double* sums, double* products, int64_t rows,
                 int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels, dy += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const double d = static_cast<double>(dy[c]);
      sums[c] += d;
      products[c] += d * static_cast<double>(x[c] - mean[c]);
    }
  }
}

void Scale(const float* x, const float* mean, const float* a, const float* b, float* y, int64_t rows,
           int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) y[c] = (x[c] - mean[c]) * a[c] + b[c];
  }
}

void Combine(const float* dy, const float* x, const float* mean, const float* a, const float* b, const float* d,
             float* dx, int64_t rows, int64_t channels) {
  for (int64_t r = 0; r < rows; ++r, x += channels, dy += channels, dx += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) dx[c] = dy[c] * a[c] + (x[c] - mean[c]) * b[c] + d[c];
  }
}

}  // namespace

extern const BatchNormTable kBatchNorm;
const BatchNormTable kBatchNorm = {&Sum, &SumSquares, &SumProducts, &Scale, &Combine};

}  // namespace troupe::TROUPE_ISA
