// Products of a vector and a matrix (gemm_f32.h): the matrix is read once, so everything is arranged for its coming from memory in order.
#include <algorithm>
#include <cstring>

#include "troupe/kernels/math/float_vectors.h"
#include "troupe/kernels/math/gemm_f32.h"

namespace troupe::TROUPE_ISA {
namespace {

bool AllFinite(const float* x, int64_t n) {
  // An exponent of ones, found by integer arithmetic, which also runs when the compiler may take every float for finite.
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    bits &= 0x7fffffffu;
    largest = largest > bits ? largest : bits;
  }
  return largest < 0x7f800000u;
}

// A matrix that is read once: its rows pass by one after the other, eight at a time, and the sums stay in the first-level cache.
void VectorRows(const float* x, const float* b, int64_t stride, int64_t k, int64_t n, float* c) {
  constexpr int64_t kColumns = 2048;
  constexpr int kTogether = 8;
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t columns = std::min(kColumns, n - j);
    float* __restrict__ y = c + j;
    std::memset(y, 0, static_cast<size_t>(columns) * sizeof(float));
    int64_t p = 0;
    for (; p + kTogether <= k; p += kTogether) {
      const float* __restrict__ row = b + p * stride + j;
      int64_t i = 0;
      for (; i + kLanes <= columns; i += kLanes) {
        Vec sum = *reinterpret_cast<const Loose*>(y + i);
#pragma GCC unroll 8
        for (int q = 0; q < kTogether; ++q) sum += *reinterpret_cast<const Loose*>(row + q * stride + i) * x[p + q];
        *reinterpret_cast<Loose*>(y + i) = sum;
      }
      if (i < columns) {
        const int rest = static_cast<int>(columns - i);
        Vec sum = LoadPart(y + i, rest);
        for (int q = 0; q < kTogether; ++q) sum += LoadPart(row + q * stride + i, rest) * x[p + q];
        StorePart(y + i, sum, rest);
      }
    }
    for (; p < k; ++p) {
      const float* __restrict__ row = b + p * stride + j;
      int64_t i = 0;
      for (; i + kLanes <= columns; i += kLanes) {
        const Vec sum = *reinterpret_cast<const Loose*>(y + i);
        *reinterpret_cast<Loose*>(y + i) = sum + *reinterpret_cast<const Loose*>(row + i) * x[p];
      }
      if (i < columns) {
        const int rest = static_cast<int>(columns - i);
        StorePart(y + i, LoadPart(y + i, rest) + LoadPart(row + i, rest) * x[p], rest);
      }
    }
  }
}

// One row at a time: it is contiguous, and the processor's own prefetching follows it.
void VectorDots(const float* x, const float* b, int64_t stride, int64_t k, int64_t n, float* c) {
  constexpr int kSums = 4;
  for (int64_t j = 0; j < n; ++j, b += stride) {
    Vec sum[kSums] = {};
    int64_t p = 0;
    for (; p + kSums * kLanes <= k; p += kSums * kLanes) {
#pragma GCC unroll 4
      for (int i = 0; i < kSums; ++i) {
        sum[i] +=
            *reinterpret_cast<const Loose*>(b + p + i * kLanes) * *reinterpret_cast<const Loose*>(x + p + i * kLanes);
      }
    }
    for (; p < k; p += kLanes) {
      const int some = static_cast<int>(std::min<int64_t>(kLanes, k - p));
      sum[0] += LoadPart(b + p, some) * LoadPart(x + p, some);
    }
    const Vec all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    float total = 0;
    for (int i = 0; i < kLanes; ++i) total += all[i];
    c[j] = total;
  }
}

}  // namespace

extern const GemvF32Table kGemvF32;
const GemvF32Table kGemvF32 = {&VectorRows, &VectorDots, &AllFinite};

}  // namespace troupe::TROUPE_ISA
