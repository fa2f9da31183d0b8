// Hot loops of the reductions of floats and doubles.
//
// A sum adds blocks of 1024 elements in 64 independent lanes (so a lane adds 16 numbers) and folds
// the lanes pairwise; block sums are added in double. The order does not depend on the vector
// length, so all levels give the same bits.
#include "kernels/common/float_functions.h"
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

namespace isa = troupe::TROUPE_ISA;
constexpr int kLanes = 64;
constexpr int64_t kBlock = 1024;
constexpr int64_t kRowBlock = 16;

template <class T>
T FoldLanes(T* lane) {
  for (int width = kLanes / 2; width >= 1; width /= 2) {
    for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return lane[0];
}

// A block of floats, whole multiples of the lanes: the lanes are vectors, and so are their pairs.
float SumBlock(const float* x, int64_t n) {
  using isa::Loose, isa::Vec;
  constexpr int kVectors = kLanes / isa::kLanes;
  Vec lane[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) lane[v] = *reinterpret_cast<const Loose*>(x + v * isa::kLanes);
  for (int64_t i = kLanes; i < n; i += kLanes) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) lane[v] += *reinterpret_cast<const Loose*>(x + i + v * isa::kLanes);
  }
#pragma GCC unroll 8
  for (int width = kVectors / 2; width >= 1; width /= 2) {
#pragma GCC unroll 16
    for (int v = 0; v < width; ++v) lane[v] += lane[v + width];
  }
  return isa::SumOf(lane[0]);
}
double SumBlock(const double* x, int64_t n) {
  double lane[kLanes];
  for (int j = 0; j < kLanes; ++j) lane[j] = x[j];
  for (int64_t i = kLanes; i < n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] += x[i + j];
  }
  return FoldLanes(lane);
}

template <class T>
void SumRow(const void* in, int64_t n, void* acc) {
  const T* x = static_cast<const T*>(in);
  double sum = *static_cast<double*>(acc);
  int64_t i = 0;
  while (n - i >= kLanes) {
    const int64_t some = (n - i < kBlock ? n - i : kBlock) / kLanes * kLanes;
    sum += SumBlock(x + i, some);
    i += some;
  }
  for (; i < n; ++i) sum += x[i];
  *static_cast<double*>(acc) = sum;
}

// Columns: 16 rows at a time are added in T, and that to the accumulators.
template <class T>
void SumRows(const void* in, int64_t rows, int64_t stride, int64_t n, void* acc) {
  const T* x = static_cast<const T*>(in);
  double* sum = static_cast<double*>(acc);
  T block[256];
  int64_t r = 0;
  for (; r + kRowBlock <= rows; r += kRowBlock) {
    for (int64_t c = 0; c < n; c += 256) {
      const int64_t m = n - c < 256 ? n - c : 256;
      const T* p = x + r * stride + c;
      for (int64_t j = 0; j < m; ++j) block[j] = p[j] + p[j + stride];
      for (int64_t k = 2; k < kRowBlock; k += 2) {
        const T* q = p + k * stride;
        for (int64_t j = 0; j < m; ++j) block[j] += q[j] + q[j + stride];
      }
      for (int64_t j = 0; j < m; ++j) sum[c + j] += block[j];
    }
  }
  for (; r < rows; ++r) {
    const T* p = x + r * stride;
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) sum[j] += p[j];
  }
}

struct Larger {
  template <class T>
  static T Do(T a, T b) {
    return a < b || b != b ? b : a;
  }
};
struct Smaller {
  template <class T>
  static T Do(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
template <class F, class T>
void PickRow(const void* in, int64_t n, void* acc) {
  const T* x = static_cast<const T*>(in);
  T best = *static_cast<T*>(acc);
  int64_t i = 0;
  if (n >= kLanes) {
    T lane[kLanes];
    for (int j = 0; j < kLanes; ++j) lane[j] = x[j];
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lane[j] = F::Do(lane[j], x[i + j]);
    }
    for (int width = kLanes / 2; width >= 1; width /= 2) {
      for (int j = 0; j < width; ++j) lane[j] = F::Do(lane[j], lane[j + width]);
    }
    best = F::Do(best, lane[0]);
  }
  for (; i < n; ++i) best = F::Do(best, x[i]);
  *static_cast<T*>(acc) = best;
}
template <class F, class T>
void PickRows(const void* in, int64_t rows, int64_t stride, int64_t n, void* acc) {
  const T* x = static_cast<const T*>(in);
  T* best = static_cast<T*>(acc);
  for (int64_t r = 0; r < rows; ++r, x += stride) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) best[j] = F::Do(best[j], x[j]);
  }
}

}  // namespace

void TROUPE_ISA::FillReductions(HotLoops* l) {
  l->reduce[static_cast<int>(HotReduce::kSum)][0] = {SumRow<float>, SumRows<float>};
  l->reduce[static_cast<int>(HotReduce::kSum)][1] = {SumRow<double>, SumRows<double>};
  l->reduce[static_cast<int>(HotReduce::kMax)][0] = {PickRow<Larger, float>, PickRows<Larger, float>};
  l->reduce[static_cast<int>(HotReduce::kMax)][1] = {PickRow<Larger, double>, PickRows<Larger, double>};
  l->reduce[static_cast<int>(HotReduce::kMin)][0] = {PickRow<Smaller, float>, PickRows<Smaller, float>};
  l->reduce[static_cast<int>(HotReduce::kMin)][1] = {PickRow<Smaller, double>, PickRows<Smaller, double>};
}

}  // namespace troupe::math
