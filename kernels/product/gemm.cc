#include "kernels/product/gemm.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/product/dnnl_sgemm.h"
#include "kernels/product/gemm_f32.h"
#include "kernels/product/gemm_tile.h"
#include "kernels/product/gemm_ways.h"
#include "kernels/tune/tuning.h"

TROUPE_ISA_TABLE(GemmTileTable, kGemmTiles, PickGemmTiles)
TROUPE_ISA_TABLE(GemmF32Table, kGemmF32, PickGemmF32)
TROUPE_ISA_TABLE(GemvF32Table, kGemvF32, PickGemvF32)

namespace troupe {
namespace {

// Below this many multiplications the tiles of gemm_isa.cc are the fastest.
constexpr int64_t kSmallProduct = 4 * 1024;
// So few rows are multiplied faster by a B that lies in panels than by the library.
constexpr int64_t kPanelRows = 48;
// A product is looked at for zeros when that is a hundredth of its work; it leaves them out when at
// most this share of its groups of rows is to be multiplied.
constexpr int64_t kWorthLooking = 1000 * 1000;
constexpr double kWorthSkipping = 0.7;

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

// How many threads share a product.
int CountOf(ComputeThreads* threads) { return threads == nullptr ? 1 : threads->num_threads(); }

// Calls f(from, to) for ranges of the rows or columns, of which there are `size`.
template <class F>
void ForRanges(ComputeThreads* threads, const GemmSplit& split, int64_t size, F&& f) {
  if (split.ranges <= 1) return f(int64_t{0}, size);
  const int64_t unit = split.unit;
  threads->ParallelRanges((size + unit - 1) / unit, split.ranges,
                          [&](int64_t first, int64_t limit) { f(first * unit, std::min(limit * unit, size)); });
}

// `product` is called as GemmStrided is, for ranges of the rows or columns.
template <class T, class Product>
void Split(ComputeThreads* threads, const GemmSplit& split, const GemmShape& s, const T* a, const T* b, T* c,
           Product&& product) {
  const int64_t lda = s.transpose_a ? s.m : s.k, ldb = s.transpose_b ? s.k : s.n;
  ForRanges(threads, split, split.by_rows ? s.m : s.n, [&](int64_t from, int64_t to) {
    GemmShape part = s;
    if (split.by_rows) {
      part.m = to - from;
      product(part, a + (s.transpose_a ? from : from * lda), lda, b, ldb, c + from * s.n, s.n);
    } else {
      part.n = to - from;
      product(part, a, lda, b + (s.transpose_b ? from * ldb : from), ldb, c + from, s.n);
    }
  });
}

template <class T>
void Split(ComputeThreads* threads, const GemmShape& s, const T* a, const T* b, T* c) {
  Split<T>(threads, SplitByRule(CountOf(threads), s, kRelativeCost<T>), s, a, b, c,
           [](const GemmShape& part, const T* pa, int64_t lda, const T* pb, int64_t ldb, T* pc, int64_t ldc) {
             GemmStrided(part, pa, lda, pb, ldb, pc, ldc, false);
           });
}

GemmF32Operands OperandsF32(const GemmShape& s, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                            int64_t ldc) {
  GemmF32Operands o;
  o.m = s.m;
  o.n = s.n;
  o.k = s.k;
  o.a = a;
  o.a_row = s.transpose_a ? 1 : lda;
  o.a_col = s.transpose_a ? lda : 1;
  o.b = b;
  o.b_row = s.transpose_b ? 1 : ldb;
  o.b_col = s.transpose_b ? ldb : 1;
  o.c = c;
  o.ldc = ldc;
  return o;
}

// B in panels: columns that the loops take at once, in ranges of whole panels.
void ProductOfPanels(ComputeThreads* threads, int64_t ranges, const GemmShape& s, const GemmF32Operands& o,
                     const float* panels) {
  const int64_t wide = PickGemmF32().panel;
  ForRanges(threads, {false, 1, ranges}, (s.n + wide - 1) / wide, [&](int64_t from, int64_t to) {
    for (int64_t j = from * wide; j < std::min(to * wide, s.n); j += wide) {
      GemmF32Operands part = o;
      part.n = part.b_row = std::min(wide, s.n - j);
      part.b = panels + j * s.k;
      part.b_col = 1;
      part.c += j;
      if (part.bias != nullptr) part.bias += j;
      PickGemmF32().product(part);
    }
  });
}

void LibraryProduct(const GemmShape& s, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                    int64_t ldc) {
  if (DnnlSgemm(s.transpose_a, s.transpose_b, s.m, s.n, s.k, a, lda, b, ldb, c, ldc, false)) return;
  PickGemmF32().product(OperandsF32(s, a, lda, b, ldb, c, ldc));
}

// Whether a product leaves out the zeros of A. A few groups of rows, spread over the matrix, are
// looked at.
bool LeavesOutZeros(const GemmF32Operands& o) {
  if (o.m * o.n * o.k < kWorthLooking || o.b_col != 1 || o.m < kGemmSkipRows || o.n < 32 || o.k < 32) return false;
  if (PickGemmF32().sampled_share(o, 6) > kWorthSkipping) return false;
  return PickGemvF32().all_finite(o.b, o.k * o.n);
}

// Parts of the rows of a large matrix, which a vector is multiplied by one after the other: so each
// thread reads memory in order. As many for any number of threads, so that the sums are the same.
constexpr int64_t kRowParts = 8, kLargeMatrix = 1 << 18;

void VectorTimesRowParts(ComputeThreads* threads, const GemmShape& s, const float* x, const float* b, float* c) {
  const int64_t rows = (s.k + kRowParts - 1) / kRowParts, parts = (s.k + rows - 1) / rows;
  std::vector<float> sums(static_cast<size_t>((parts - 1) * s.n));
  ForRanges(threads, {false, 1, std::min<int64_t>(parts, CountOf(threads))}, parts, [&](int64_t from, int64_t to) {
    for (int64_t p = from; p < to; ++p) {
      const int64_t first = p * rows;
      PickGemvF32().vector_rows(x + first, b + first * s.n, s.n, std::min(rows, s.k - first), s.n,
                                p == 0 ? c : sums.data() + (p - 1) * s.n);
    }
  });
  for (const float* part = sums.data(); part < sums.data() + sums.size(); part += s.n)
    for (int64_t j = 0; j < s.n; ++j) c[j] += part[j];
}

// A vector times a matrix, which is then read once and in order: `x` has s.k elements, C s.n.
void VectorTimesMatrix(ComputeThreads* threads, const GemmShape& s, const float* x, const float* b, float* c) {
  if (!s.transpose_b && s.k * s.n >= kLargeMatrix && s.k >= 16 * kRowParts)
    return VectorTimesRowParts(threads, s, x, b, c);
  const GemvF32Table& table = PickGemvF32();
  // Reading the matrix is what takes time, some twenty multiplications' worth an element.
  ForRanges(threads, SplitByRule(CountOf(threads), s, 10), s.n, [&](int64_t from, int64_t to) {
    if (s.transpose_b) {
      table.vector_dots(x, b + from * s.k, s.k, s.k, to - from, c + from);
    } else {
      table.vector_rows(x, b + from, s.n, s.k, to - from, c + from);
    }
  });
}

// By our own loops; `loops` is one of the table's.
void OwnProduct(ComputeThreads* threads, const GemmSplit& split, const GemmF32Operands& o,
                void (*loops)(const GemmF32Operands&)) {
  ForRanges(threads, split, split.by_rows ? o.m : o.n, [&](int64_t from, int64_t to) {
    GemmF32Operands part = o;
    if (split.by_rows) {
      part.m = to - from;
      part.a += from * o.a_row;
      part.c += from * o.ldc;
    } else {
      part.n = to - from;
      part.b += from * o.b_col;
      part.c += from;
      if (o.bias != nullptr) part.bias += from;
    }
    loops(part);
  });
}

// False when bias and activation are left to the caller.
bool ProductInWay(ComputeThreads* threads, const GemmWay& way, const GemmShape& s, const GemmF32Operands& o,
                  const float* panels) {
  switch (way.loops) {
    case GemmLoops::kLibrary:
      // The whole product's shape has chosen, so that a range of it goes the same way.
      Split<float>(threads, way.split, s, o.a, o.b, o.c, LibraryProduct);
      return false;
    case GemmLoops::kPanels:
      ProductOfPanels(threads, way.split.ranges, s, o, panels);
      return true;
    case GemmLoops::kOwn:
      break;
  }
  OwnProduct(threads, way.split, o, PickGemmF32().product);
  return true;
}

constexpr const char* kNumbers[] = {"m", "n", "k", "ta", "tb", "bias", "panels", "threads"};
constexpr tune::Problem kProblem = {"matmul", kNumbers};

// In the way that was the fastest here, or in one that is being tried. Not inline: what it takes of
// the stack is none of a small product's.
[[gnu::noinline]] void TunedProduct(ComputeThreads* threads, const GemmShape& s, const GemmF32Operands& o,
                                    const float* panels) {
  const int count = CountOf(threads);
  const GemmWays ways(count, s, panels != nullptr);
  tune::Trial trial(
      tune::Key(&kProblem, {s.m, s.n, s.k, s.transpose_a, s.transpose_b, o.bias != nullptr, panels != nullptr, count}),
      [&] { return ways.Names(); });
  if (!ProductInWay(threads, ways.way[trial.way()], s, o, panels) && o.bias != nullptr) {
    // Its time is part of the way's: our own loops have it inside.
    const FusedActivation behind = o.activation == GemmActivation::kRelu    ? FusedActivation::kRelu
                                   : o.activation == GemmActivation::kRelu6 ? FusedActivation::kRelu6
                                                                            : FusedActivation::kNone;
    AddBiasActivation(threads, behind, 0, s.m, s.n, o.bias, o.c);
  }
  trial.Done();
}

// Dense operands. Bias and activation are left to the caller when this returns false.
bool SplitF32(ComputeThreads* threads, const GemmShape& s, const float* a, const float* b, const float* bias,
              GemmActivation activation, float* c, const float* panels) {
  if (s.m * s.n * s.k <= kSmallProduct) {
    PickGemmTiles().f32(Operands(s, a, s.transpose_a ? s.m : s.k, b, s.transpose_b ? s.k : s.n, c, s.n, false));
    return false;
  }
  if (s.m == 1 || s.n == 1) {
    GemmShape v{.m = 1, .n = s.n, .k = s.k, .transpose_b = s.transpose_b};
    if (s.m > 1) v = {.m = 1, .n = s.m, .k = s.k, .transpose_b = !s.transpose_a};
    VectorTimesMatrix(threads, v, s.m == 1 ? a : b, s.m == 1 ? b : a, c);
    return false;
  }
  GemmF32Operands o = OperandsF32(s, a, s.transpose_a ? s.m : s.k, b, s.transpose_b ? s.k : s.n, c, s.n);
  const bool skip = LeavesOutZeros(o);
  o.bias = bias;
  o.activation = activation;
  if (skip) {
    OwnProduct(threads, SplitByRule(CountOf(threads), s, 0.5), o, PickGemmF32().product_skipping);
    return true;
  }
  if (tune::Active()) [[unlikely]] {
    TunedProduct(threads, s, o, panels);
    return true;
  }
  return ProductInWay(threads, WayByRule(CountOf(threads), s, panels != nullptr), s, o, panels);
}

template <class T, class F>
std::vector<T> Converted(const void* from, int64_t n, F f) {
  std::vector<T> to(n);
  for (int64_t i = 0; i < n; ++i) to[i] = f(i);
  return to;
}

// Types whose product is computed in `Wide` and then narrowed: rounded for small floats, taken
// modulo 2^bits for small integers.
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

bool GemmTakesPanels(const GemmShape& s) {
  if (s.m < 2 || s.n < 2 || s.m > kPanelRows || s.m * s.n * s.k <= kSmallProduct) return false;
  return IsaLevel() == 3 || (IsaLevel() > 3 && Middling(s));
}

void PackPanels(const GemmShape& s, const float* b, float* panels) {
  const int64_t wide = PickGemmF32().panel;
  for (int64_t j = 0; j < s.n; j += wide) {
    const int64_t columns = std::min(wide, s.n - j);
    for (int64_t p = 0; p < s.k; ++p, panels += columns) {
      for (int64_t x = 0; x < columns; ++x) panels[x] = s.transpose_b ? b[(j + x) * s.k + p] : b[p * s.n + j + x];
    }
  }
}

void GemmStrided(const GemmShape& s, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                 bool accumulate) {
  if (s.m * s.n * s.k <= kSmallProduct) {
    return PickGemmTiles().f32(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
  }
  if (!Middling(s) && DnnlSgemm(s.transpose_a, s.transpose_b, s.m, s.n, s.k, a, lda, b, ldb, c, ldc, accumulate)) {
    return;
  }
  GemmF32Operands o = OperandsF32(s, a, lda, b, ldb, c, ldc);
  o.accumulate = accumulate;
  PickGemmF32().product(o);
}
void GemmStrided(const GemmShape& s, const double* a, int64_t lda, const double* b, int64_t ldb, double* c, int64_t ldc,
                 bool accumulate) {
  PickGemmTiles().f64(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
}
void GemmStrided(const GemmShape& s, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, uint32_t* c,
                 int64_t ldc, bool accumulate) {
  PickGemmTiles().u32(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
}
void GemmStrided(const GemmShape& s, const uint64_t* a, int64_t lda, const uint64_t* b, int64_t ldb, uint64_t* c,
                 int64_t ldc, bool accumulate) {
  PickGemmTiles().u64(Operands(s, a, lda, b, ldb, c, ldc, accumulate));
}

void GemmBiasActivation(ComputeThreads* threads, const GemmShape& s, const float* a, const float* b, const float* bias,
                        FusedActivation activation, float alpha, float* c, const float* panels) {
  if (s.m == 0 || s.n == 0) return;
  GemmActivation inside = GemmActivation::kNone;
  bool all = true;
  switch (activation) {
    case FusedActivation::kNone:
      break;
    case FusedActivation::kRelu:
      inside = GemmActivation::kRelu;
      break;
    case FusedActivation::kRelu6:
      inside = GemmActivation::kRelu6;
      break;
    default:
      all = false;
  }
  if (s.k == 0) {
    std::memset(c, 0, static_cast<size_t>(s.m * s.n) * sizeof(float));
  } else if (SplitF32(threads, s, a, b, all ? bias : nullptr, inside, c, panels) && all) {
    return;
  }
  AddBiasActivation(threads, activation, alpha, s.m, s.n, bias, c);
}

bool Gemm(ComputeThreads* threads, DType dtype, const GemmShape& s, const void* a, const void* b, void* c,
          const float* panels) {
  if (s.m == 0 || s.n == 0) return true;
  if (s.k == 0) {
    std::memset(c, 0, static_cast<size_t>(s.m) * s.n * SizeOf(dtype));
    return true;
  }
  switch (dtype) {
    case DType::kFloat:
      SplitF32(threads, s, static_cast<const float*>(a), static_cast<const float*>(b), nullptr, GemmActivation::kNone,
               static_cast<float*>(c), panels);
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
