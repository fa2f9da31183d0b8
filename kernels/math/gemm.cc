#include "troupe/kernels/math/gemm.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <vector>

#include "troupe/kernels/math/gemm_tile.h"
#include "troupe/kernels/nn/dnnl/sgemm.h"
#include "troupe/kernels/nn/isa_pick.h"

TROUPE_ISA_TABLE(GemmTileTable, kGemmTiles)

namespace troupe {
namespace {

// Below this many multiplications our own tiles beat the library's set-up.
constexpr int64_t kSmallProduct = 4 * 1024;
// A range of a split product has at least this many multiplications (about 5 us of float32 work; a hand-over costs about that).
constexpr double kRangeWork = 400e3;

template <class T>
TileOperands<T> Operands(const GemmShape& s, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                         bool accumulate) {
  return {s.m,
          s.n,
          s.k,
          a,
          s.transpose_a ? 1 : lda,
          s.transpose_a ? lda : 1,
          b,
          s.transpose_b ? 1 : ldb,
          s.transpose_b ? ldb : 1,
          c,
          ldc,
          accumulate};
}

// How much slower one multiplication of T is than of float32: what splitting is decided by.
template <class T>
constexpr double kRelativeCost = 1;
template <>
constexpr double kRelativeCost<double> = 2.5;
template <>
constexpr double kRelativeCost<uint32_t> = 3;
template <>
constexpr double kRelativeCost<uint64_t> = 8;

template <class T>
void Split(ComputeThreads* threads, const GemmShape& s, const T* a, const T* b, T* c) {
  const int64_t lda = s.transpose_a ? s.m : s.k, ldb = s.transpose_b ? s.k : s.n;
  int64_t ranges = 1;
  if (threads != nullptr && threads->num_threads() > 1) {
    const double work = static_cast<double>(s.m) * s.n * s.k * kRelativeCost<T>;
    ranges = std::min<int64_t>(threads->num_threads(), static_cast<int64_t>(work / kRangeWork));
  }
  if (ranges <= 1) return GemmStrided(s, a, lda, b, ldb, c, s.n, false);
  const bool by_rows = s.m >= s.n;
  const int64_t unit = by_rows ? 8 : 16, size = by_rows ? s.m : s.n, units = (size + unit - 1) / unit;
  threads->ParallelRanges(units, std::min(ranges, units), [&](int64_t first, int64_t limit) {
    const int64_t from = first * unit, to = std::min(limit * unit, size);
    GemmShape part = s;
    if (by_rows) {
      part.m = to - from;
      GemmStrided(part, a + (s.transpose_a ? from : from * lda), lda, b, ldb, c + from * s.n, s.n, false);
    } else {
      part.n = to - from;
      GemmStrided(part, a, lda, b + (s.transpose_b ? from * ldb : from), ldb, c + from, s.n, false);
    }
  });
}

template <class T, class F>
std::vector<T> Converted(const void* from, int64_t n, F f) {
  std::vector<T> to(n);
  for (int64_t i = 0; i < n; ++i) to[i] = f(i);
  return to;
}

// Types whose product is computed in `Wide` and then narrowed: rounded for small floats, taken modulo 2^bits for small integers.
template <class T, class Wide>
void Widened(ComputeThreads* threads, const GemmShape& s, const void* a, const void* b, void* c) {
  auto wide = [](const void* p, int64_t n) {
    const T* x = static_cast<const T*>(p);
    return Converted<Wide>(p, n, [x](int64_t i) { return static_cast<Wide>(x[i]); });
  };
  std::vector<Wide> wa = wide(a, s.m * s.k), wb = wide(b, s.k * s.n), wc(s.m * s.n);
  Split<Wide>(threads, s, wa.data(), wb.data(), wc.data());
  T* out = static_cast<T*>(c);
  for (int64_t i = 0; i < s.m * s.n; ++i) out[i] = static_cast<T>(wc[i]);
}

// (a + bi)(c + di) by planes: four real products, so that the real kernels do the work.
template <class R>
void ComplexProduct(ComputeThreads* threads, const GemmShape& s, const void* a, const void* b, void* c) {
  auto plane = [](const void* p, int64_t n, bool imaginary, bool conj) {
    const R* x = static_cast<const R*>(p) + imaginary;
    return Converted<R>(p, n, [=](int64_t i) { return conj ? -x[2 * i] : x[2 * i]; });
  };
  const int64_t na = s.m * s.k, nb = s.k * s.n, nc = s.m * s.n;
  const std::vector<R> ar = plane(a, na, false, false), ai = plane(a, na, true, s.conj_a);
  const std::vector<R> br = plane(b, nb, false, false), bi = plane(b, nb, true, s.conj_b);
  std::vector<R> x(nc), y(nc);
  R* out = static_cast<R*>(c);
  Split<R>(threads, s, ar.data(), br.data(), x.data());
  Split<R>(threads, s, ai.data(), bi.data(), y.data());
  for (int64_t i = 0; i < nc; ++i) out[2 * i] = x[i] - y[i];
  Split<R>(threads, s, ar.data(), bi.data(), x.data());
  Split<R>(threads, s, ai.data(), br.data(), y.data());
  for (int64_t i = 0; i < nc; ++i) out[2 * i + 1] = x[i] + y[i];
}

template <class T>
void Plain(ComputeThreads* threads, const GemmShape& s, const void* a, const void* b, void* c) {
  Split<T>(threads, s, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c));
}

}  // namespace

void GemmStrided(const GemmShape& s, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                 bool accumulate) {
  if (s.m * s.n * s.k > kSmallProduct &&
      DnnlSgemm(s.transpose_a, s.transpose_b, s.m, s.n, s.k, a, lda, b, ldb, c, ldc, accumulate)) {
    return;
  }
  PickkGemmTiles().f32(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
}
void GemmStrided(const GemmShape& s, const double* a, int64_t lda, const double* b, int64_t ldb, double* c, int64_t ldc,
                 bool accumulate) {
  PickkGemmTiles().f64(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
}
void GemmStrided(const GemmShape& s, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, uint32_t* c,
                 int64_t ldc, bool accumulate) {
  PickkGemmTiles().u32(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
}
void GemmStrided(const GemmShape& s, const uint64_t* a, int64_t lda, const uint64_t* b, int64_t ldb, uint64_t* c,
                 int64_t ldc, bool accumulate) {
  PickkGemmTiles().u64(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
}

bool Gemm(ComputeThreads* threads, DType dtype, const GemmShape& s, const void* a, const void* b, void* c) {
  if (s.m == 0 || s.n == 0) return true;
  if (s.k == 0) {
    std::memset(c, 0, static_cast<size_t>(s.m) * s.n * SizeOf(dtype));
    return true;
  }
  switch (dtype) {
    case DType::kFloat:
      Plain<float>(threads, s, a, b, c);
      return true;
    case DType::kDouble:
      Plain<double>(threads, s, a, b, c);
      return true;
    case DType::kInt32:  // two's complement: the bits of a product modulo 2^32 do not depend on signedness
    case DType::kUint32:
      Plain<uint32_t>(threads, s, a, b, c);
      return true;
    case DType::kInt64:
    case DType::kUint64:
      Plain<uint64_t>(threads, s, a, b, c);
      return true;
    case DType::kHalf:
      Widened<Half, float>(threads, s, a, b, c);
      return true;
    case DType::kBfloat16:
      Widened<BFloat16, float>(threads, s, a, b, c);
      return true;
    case DType::kInt8:
    case DType::kUint8:
      Widened<uint8_t, uint32_t>(threads, s, a, b, c);
      return true;
    case DType::kInt16:
    case DType::kUint16:
      Widened<uint16_t, uint32_t>(threads, s, a, b, c);
      return true;
    case DType::kComplex64:
      ComplexProduct<float>(threads, s, a, b, c);
      return true;
    case DType::kComplex128:
      ComplexProduct<double>(threads, s, a, b, c);
      return true;
    default:
      return false;
  }
}

}  // namespace troupe
