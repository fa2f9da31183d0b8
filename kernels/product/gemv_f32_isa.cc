// Products of a vector and a matrix (gemm_f32.h): the matrix is read once, so everything is
// arranged for its coming from memory in order.
#include <algorithm>
#include <cstring>

#include "kernels/common/float_vectors.h"
#include "kernels/product/gemm_f32.h"

namespace troupe::TROUPE_ISA {
namespace {

bool AllFinite(const float* x, int64_t n) {
  // An exponent of ones, found by integer arithmetic, which also runs when the compiler may take
  // every float for finite.
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, 4);
    bits &= 0x7fffffffu;
    largest = largest > bits ? largest : bits;
  }
  return largest < 0x7f800000u;
}

// A matrix that is read once: its rows pass by one after the other, eight at a time, and the sums
// stay in the first-level cache.
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

// R rows, each of them in two sums: several streams keep more of the memory's lines under way than
// one.
template <int R>
TROUPE_INLINE void Dots(const float* x, const float* b, int64_t stride, int64_t k, float* c) {
  Vec sum[R][2] = {};
  int64_t p = 0;
  for (; p + 2 * kLanes <= k; p += 2 * kLanes) {
    const Vec x0 = *reinterpret_cast<const Loose*>(x + p), x1 = *reinterpret_cast<const Loose*>(x + p + kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      sum[r][0] += *reinterpret_cast<const Loose*>(b + r * stride + p) * x0;
      sum[r][1] += *reinterpret_cast<const Loose*>(b + r * stride + p + kLanes) * x1;
    }
  }
  for (; p < k; p += kLanes) {
    const int some = static_cast<int>(std::min<int64_t>(kLanes, k - p));
    const Vec x0 = LoadPart(x + p, some);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum[r][0] += LoadPart(b + r * stride + p, some) * x0;
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const Vec all = sum[r][0] + sum[r][1];
    float total = 0;
    for (int i = 0; i < kLanes; ++i) total += all[i];
    c[r] = total;
  }
}

void VectorDots(const float* x, const float* b, int64_t stride, int64_t k, int64_t n, float* c) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) Dots<4>(x, b + j * stride, stride, k, c + j);
  for (; j < n; ++j) Dots<1>(x, b + j * stride, stride, k, c + j);
}

}  // namespace

extern const GemvF32Table kGemvF32;
const GemvF32Table kGemvF32 = {&VectorRows, &VectorDots, &AllFinite};

}  // namespace troupe::TROUPE_ISA
