// The loops of batch normalisation over a matrix [rows, channels]; one function per instruction
// level. Sums are taken in float32 over blocks of at most 64 rows, and kept in float64; where they
// overflow, all is done in float64.
//
// Problem: a step of training reads its images from memory as often as a loop goes over them. So
// mean and variance are found together, block by block, and the activation behind a normalisation
// belongs to the loops: whether it lets a gradient through is told from x once more, with the bits
// of the forward pass.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_NN_BATCH_NORM_LOOPS_H_
#define TROUPE_KERNELS_NN_BATCH_NORM_LOOPS_H_

#include <cstdint>

namespace troupe {

// What follows the normalisation.
enum class NormActivation { kNone, kRelu, kRelu6 };
inline constexpr int kNumNormActivations = 3;

// Vectors of a number a channel: the normalisation is (x - mean) * a + b.
struct NormVectors {
  const float *mean, *a, *b;
};

// Of scratch numbers, a call needs these for each channel.
inline constexpr int kNormScratch = 3;

// By NormActivation, where there is one function for each.
struct BatchNormTable {
  // mean[c] = the mean of x, squares[c] = the sum of (x - mean)^2; rows > 0.
  void (*moments)(const float* x, double* mean, double* squares, float* scratch, int64_t rows, int64_t channels);
  // sums[c] = the sum of g, products[c] = that of g * (x - mean), for the gradient g of the
  // normalised x: dy, or dy times the derivative of the activation. REQUIRES: rows > 0.
  void (*sum_products[kNumNormActivations])(const float* dy, const float* x, const NormVectors& n, double* sums,
                                            double* products, float* scratch, int64_t rows, int64_t channels);
  // y = activation((x - mean) * a + b); y may be x.
  void (*scale[kNumNormActivations])(const float* x, const NormVectors& n, float* y, int64_t rows, int64_t channels);
  // dx = g * p + (x - mean) * q + r; dx may be dy or x.
  void (*combine[kNumNormActivations])(const float* dy, const float* x, const NormVectors& n, const float* p,
                                       const float* q, const float* r, float* dx, int64_t rows, int64_t channels);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_BATCH_NORM_LOOPS_H_
