// The loops of gemm_f32.h.
//
// A tile of C stays in registers while p runs: R rows by up to three vectors, the last of them
// whole, masked or a half one. A is read by broadcast, in place under any strides. B is read in
// place where its rows are contiguous, unless they are so far apart that they share few places of
// the cache: those are copied, and a transposed B is turned round, panel by panel. With every p
// one line is asked for ahead: of the next panel of B while the first tiles of a panel are
// computed, of the next rows of A in the tiles after them.
#include <algorithm>

#include "kernels/common/float_vectors.h"
#include "kernels/product/gemm_f32.h"

namespace troupe::TROUPE_ISA {
namespace {

#if TROUPE_ISA_LEVEL >= 4
constexpr int kWide = 48;       // columns of a panel
constexpr int kShortWide = 32;  // and where A is transposed and most of its rows are left out: of a short list
#elif TROUPE_ISA_LEVEL == 3
constexpr int kWide = 24, kShortWide = 24;
#else
constexpr int kWide = 8, kShortWide = 8;
#endif
// Rows of a tile of V vectors: enough sums to hide the latency of a multiplication, as many as
// there are registers.
template <int V>
constexpr int kRows = kLanes == 16  ? 8
                      : kLanes == 8 ? (V == 3   ? 4
                                       : V == 2 ? 6
                                                : 8)
                                    : (V == 2 ? 4 : 8);
constexpr int64_t kBlock = 512;  // of p at most: a panel of B stays in the second-level cache while the rows pass by
constexpr int64_t kTurnBlock = 256;  // of p when B is turned round
// Rows of B that are a multiple of this many floats apart are copied, where as many rows of C make
// up for it.
constexpr int64_t kAliased = 1024, kCopiedFor = 64;
// Floats of A that stay in the second-level cache while the panels of B pass by; more where each of
// them is turned round first.
constexpr int64_t kNearA = 32 * 1024, kTurnNearA = 64 * 1024;
constexpr int64_t kSkipBlock = 512;  // of p when some are skipped
constexpr int kAhead = 8;            // rows of B, when some are skipped
constexpr int kLine = 16;            // floats of a line of the cache

// As the op Relu does it: a NaN stays one.
template <class V>
TROUPE_INLINE V Activated(GemmActivation f, V x) {
  const V zero = {}, six = zero + 6.0f;
  if (f != GemmActivation::kNone) x = x < zero ? zero : x;
  if (f == GemmActivation::kRelu6) x = x > six ? six : x;
  return x;
}

struct Panel {
  int64_t k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 0;
  const float* b = nullptr;
  int64_t b_row = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  // What a tile asks for while it is computed: a line every `step` floats. The first tiles of a
  // panel ask for the lines of the next panel of B, one column of lines after the other; those
  // after them, where `rows_later`, for the rows of A that come next.
  const float* later = nullptr;
  int64_t step = 0;
  bool rows_later = false;
  const int32_t* list = nullptr;  // which p to take, then kAhead more that may be asked for; null takes all
  bool accumulate = false;
  int rest = 0;                 // columns of the last vector
  const float* bias = nullptr;  // of the panel's columns
  GemmActivation activation = GemmActivation::kNone;
};

// R rows by V vectors, the last of them a half one with kHalf. In one piece, since the sums stay in
// registers from the first line to the last.
template <int R, int V, bool kHalf, bool kList>
__attribute__((noinline)) void Tile(const Panel& g) {
  constexpr int W = kHalf ? V - 1 : V, kW = W > 0 ? W : 1;
  const float *a = g.a, *b = g.b;
  const int64_t a_row = g.a_row, a_col = g.a_col, b_row = g.b_row;
  const int rest = g.rest;
  const float* later = g.later;
  const int64_t step = g.step;
  const auto load = [&](const float* p, int v) -> Vec {
    return kHalf || v + 1 < V ? static_cast<Vec>(*reinterpret_cast<const Loose*>(p + v * kLanes))
                              : LoadPart(p + v * kLanes, rest);
  };
  if constexpr (kList) {
    // Results of many rows come to lines that are far away.
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < V; ++v) __builtin_prefetch(g.c + r * g.ldc + v * kLanes, 1);
    }
  }
  Vec sum[R][kW] = {};
  Half half[R] = {};
  // The rows from the fifth on have a pointer of their own that the compiler does not know to be
  // one: with offsets from the first it runs out of registers.
  const float* a4 = a + (R > 4 ? 4 : 0) * a_row;
  asm("" : "+r"(a4));
  for (int64_t q = 0; q < g.k; ++q) {
    const float *x = a, *x4 = a4, *y = b;
    if constexpr (kList) {
      x += g.list[q] * a_col;
      x4 += g.list[q] * a_col;
      y += g.list[q] * b_row;
    }
    Vec row[kW];
#pragma GCC unroll 3
    for (int v = 0; v < W; ++v) row[v] = load(y, v);
    Half end;
    if constexpr (kHalf) end = LoadHalf(y + W * kLanes, rest);
    if constexpr (kList) {
      const float* next = b + g.list[q + kAhead] * b_row;
#pragma GCC unroll 3
      for (int v = 0; v < V; ++v) __builtin_prefetch(next + v * kLanes);
    } else {
      __builtin_prefetch(later, 0, 2);
      later += step;
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const float s = r < 4 ? x[r * a_row] : x4[(r - 4) * a_row];
#pragma GCC unroll 3
      for (int v = 0; v < W; ++v) sum[r][v] += row[v] * s;
      if constexpr (kHalf) half[r] += end * s;
    }
    if constexpr (!kList) {
      a += a_col;
      a4 += a_col;
      b += b_row;
    }
  }
  float* c = g.c;
  const int64_t ldc = g.ldc;
  if (g.accumulate) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < W; ++v) sum[r][v] += load(c + r * ldc, v);
      if constexpr (kHalf) half[r] += LoadHalf(c + r * ldc + W * kLanes, rest);
    }
  }
  if (g.bias != nullptr) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
      for (int v = 0; v < W; ++v) sum[r][v] = Activated(g.activation, sum[r][v] + load(g.bias, v));
      if constexpr (kHalf) half[r] = Activated(g.activation, half[r] + LoadHalf(g.bias + W * kLanes, rest));
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r, c += ldc) {
#pragma GCC unroll 3
    for (int v = 0; v < W; ++v) {
      if (kHalf || v + 1 < V) {
        *reinterpret_cast<Loose*>(c + v * kLanes) = sum[r][v];
      } else {
        StorePart(c + v * kLanes, sum[r][v], rest);
      }
    }
    if constexpr (kHalf) StoreHalf(c + W * kLanes, half[r], rest);
  }
}

// m rows under one panel of B.
template <int V, bool kHalf, bool kList>
void Rows(Panel g, int64_t m) {
  constexpr int R = kRows<V>;
  constexpr int kLines = kWide / kLine + 1;  // of a row of a panel
  int tiles = 0;
  const auto go = [&](auto tile, int rows) {
    tile(g);
    g.a += rows * g.a_row;
    g.c += rows * g.ldc;
    m -= rows;
    if constexpr (!kList) {
      g.later += kLine;
      if (++tiles < kLines) return;
      if (!g.rows_later) {
        // The panel has been asked for, and what lies behind it may be no memory at all.
        g.later = g.b;
        g.step = 0;
        return;
      }
      // A's next rows: all of them when they lie in a row, or a line that has the rows after the
      // next ones too.
      const bool turned = g.a_row == 1;
      g.later = g.a + (turned ? 2 * R : R * g.a_row);
      g.step = turned ? g.a_col : R;
    }
  };
  while (m >= R) go(Tile<R, V, kHalf, kList>, R);
  if (R > 4 && m >= 4) go(Tile<4, V, kHalf, kList>, 4);
  if (m >= 2) go(Tile<2, V, kHalf, kList>, 2);
  if (m >= 1) go(Tile<1, V, kHalf, kList>, 1);
}

// A panel `columns` wide.
template <bool kList>
TROUPE_INLINE void Columns(Panel g, int64_t m, int columns) {
  const int vectors = (columns + kLanes - 1) / kLanes;
  g.rest = columns - (vectors - 1) * kLanes;
  if (kLanes == 16 && g.rest <= kHalfLanes) {
    return vectors == 1   ? Rows<1, true, kList>(g, m)
           : vectors == 2 ? Rows<2, true, kList>(g, m)
                          : Rows<3, true, kList>(g, m);
  }
  if constexpr (kWide > 2 * kLanes) {
    if (vectors == 3) return Rows<3, false, kList>(g, m);
  }
  return vectors == 1 ? Rows<1, false, kList>(g, m) : Rows<2, false, kList>(g, m);
}

int NextColumns(int64_t left, int wide = kWide) { return static_cast<int>(left <= kWide ? left : wide); }

// to[q*width + x] = from[x*stride + q] for q < k and x < columns; the columns up to the next
// multiple of a vector are zeros.
void TurnRound(const float* from, int64_t stride, int64_t k, int columns, float* to, int width);

#if TROUPE_ISA_LEVEL >= 3
// Eight columns of eight values.
TROUPE_INLINE void TurnEight(const float* from, int64_t stride, int columns, float* to, int width) {
  __m256 r[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = i < columns ? _mm256_loadu_ps(from + i * stride) : _mm256_setzero_ps();
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#endif

void TurnRound(const float* from, int64_t stride, int64_t k, int columns, float* to, int width) {
  int x = 0;
#if TROUPE_ISA_LEVEL >= 3
  for (; x < columns; x += 8) {
    const int some = std::min(8, columns - x);
    int64_t q = 0;
    for (; q + 8 <= k; q += 8) TurnEight(from + x * stride + q, stride, some, to + q * width + x, width);
    for (; q < k; ++q) {
      for (int i = 0; i < 8; ++i) to[q * width + x + i] = i < some ? from[(x + i) * stride + q] : 0.0f;
    }
  }
#endif
  for (; x < width; ++x) {
    for (int64_t q = 0; q < k; ++q) to[q * width + x] = x < columns ? from[x * stride + q] : 0.0f;
  }
}

bool CopiesB(const GemmF32Operands& o) { return o.b_col == 1 && o.b_row % kAliased == 0 && o.m >= kCopiedFor; }

// to[q*width + x] = from[q*stride + x] for q < k and x < columns.
void CopyPanel(const float* from, int64_t stride, int64_t k, int columns, float* to, int width) {
  for (int64_t q = 0; q < k; ++q, from += stride, to += width) {
    int x = 0;
    for (; x + kLanes <= columns; x += kLanes)
      *reinterpret_cast<Loose*>(to + x) = *reinterpret_cast<const Loose*>(from + x);
    for (; x < columns; ++x) to[x] = from[x];
  }
}

// The rows [i, i + m) of C.
void RowsOf(const GemmF32Operands& o, int64_t i, int64_t m, int64_t block, float* panel) {
  const bool copies = CopiesB(o);
  for (int64_t p = 0; p < o.k; p += block) {
    const bool ends = p + block >= o.k;
    Panel g = {.k = std::min(block, o.k - p),
               .a_row = o.a_row,
               .a_col = o.a_col,
               .ldc = o.ldc,
               .accumulate = o.accumulate || p > 0,
               .activation = o.activation};
    for (int64_t j = 0; j < o.n;) {
      const int columns = NextColumns(o.n - j);
      g.a = o.a + i * o.a_row + p * o.a_col;
      g.c = o.c + i * o.ldc + j;
      g.bias = ends && o.bias != nullptr ? o.bias + j : nullptr;
      g.rows_later = j == 0 && (o.a_row == 1 || o.a_row == g.k);
      if (o.b_col != 1) {
        const int width = (columns + kLanes - 1) / kLanes * kLanes;
        TurnRound(o.b + p + j * o.b_col, o.b_col, g.k, columns, panel, width);
        g.b = g.later = panel;
        g.b_row = g.step = width;
      } else {
        g.b = o.b + p * o.b_row + j;
        g.b_row = g.step = o.b_row;
        g.later = j + columns < o.n ? g.b + columns : o.b + (p + (ends ? 0 : block)) * o.b_row;
        if (copies) {
          CopyPanel(g.b, o.b_row, g.k, columns, panel, kWide);
          g.b = panel;
          g.b_row = kWide;
        }
      }
      Columns<false>(g, m, columns);
      j += columns;
    }
  }
}

// With memory for a panel of B of `kDepth` rows: on the stack, of which other products than those
// that copy B need half as much.
template <int64_t kDepth>
__attribute__((noinline)) void InBlocks(const GemmF32Operands& o, int64_t most, int64_t near) {
  alignas(64) float panel[kDepth * kWide];
  // Blocks of like size.
  const auto size = [](int64_t n, int64_t at_most, int64_t unit) {
    const int64_t blocks = (n + at_most - 1) / at_most;
    return ((n + blocks - 1) / blocks + unit - 1) / unit * unit;
  };
  const int64_t block = size(o.k, most, 1);
  const int64_t rows = size(o.m, std::max<int64_t>(near / block, 8 * kRows<1>), kRows<1>);
  for (int64_t i = 0; i < o.m; i += rows) RowsOf(o, i, std::min(rows, o.m - i), block, panel);
}

void Product(const GemmF32Operands& o) {
  if (o.b_col != 1) return InBlocks<kTurnBlock>(o, kTurnBlock, kTurnNearA);
  if (CopiesB(o)) return InBlocks<kBlock>(o, kBlock, kTurnNearA);
  InBlocks<1>(o, kBlock, kNearA);
}

// Writes those p < k for which one of the rows has something, then kAhead copies of the last one.
// Returns how many there are.
int List(const float* a, int64_t a_row, int64_t a_col, int rows, int64_t k, int32_t* list) {
  int count = 0;
  if (a_row == 1) {
    for (int64_t p = 0; p < k; ++p) {
      bool some = false;
      __builtin_prefetch(a + p * a_col + 16);  // for the group after next
#if TROUPE_ISA_LEVEL >= 3
      if (rows == 8) {
        some = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(a + p * a_col), _mm256_setzero_ps(), _CMP_NEQ_UQ)) != 0;
      } else  // NOLINT
#endif
        for (int r = 0; r < rows; ++r) some |= a[r + p * a_col] != 0.0f;
      list[count] = static_cast<int32_t>(p);
      count += some;
    }
  } else {
    int64_t p = 0;
#if TROUPE_ISA_LEVEL >= 3
    if (a_col == 1) {
      for (; p + 8 <= k; p += 8) {
        int some = 0;
        for (int r = 0; r < rows; ++r) {
          some |=
              _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(a + r * a_row + p), _mm256_setzero_ps(), _CMP_NEQ_UQ));
        }
        for (; some != 0; some &= some - 1) list[count++] = static_cast<int32_t>(p) + __builtin_ctz(some);
      }
    }
#endif
    for (; p < k; ++p) {
      bool some = false;
      for (int r = 0; r < rows; ++r) some |= a[r * a_row + p * a_col] != 0.0f;
      list[count] = static_cast<int32_t>(p);
      count += some;
    }
  }
  const int32_t last = count > 0 ? list[count - 1] : 0;
  for (int i = 0; i < kAhead; ++i) list[count + i] = last;
  return count;
}

void ProductSkipping(const GemmF32Operands& o) {
  int32_t list[kSkipBlock + kAhead + 1];
  // Blocks of like size.
  const int64_t blocks = (o.k + kSkipBlock - 1) / kSkipBlock, block = (o.k + blocks - 1) / blocks;
  for (int64_t i = 0; i < o.m; i += kGemmSkipRows) {
    const int rows = static_cast<int>(std::min<int64_t>(kGemmSkipRows, o.m - i));
    for (int64_t p = 0; p < o.k; p += block) {
      const float* a = o.a + i * o.a_row + p * o.a_col;
      Panel g = {.a_row = o.a_row,
                 .a_col = o.a_col,
                 .b_row = o.b_row,
                 .ldc = o.ldc,
                 .list = list,
                 .accumulate = p > 0,
                 .activation = o.activation};
      g.k = List(a, o.a_row, o.a_col, rows, std::min(block, o.k - p), list);
      for (int64_t j = 0; j < o.n;) {
        const int columns = NextColumns(o.n - j, o.a_row == 1 ? kShortWide : kWide);
        g.a = a;
        g.b = o.b + p * o.b_row + j;
        g.c = o.c + i * o.ldc + j;
        g.bias = p + block >= o.k && o.bias != nullptr ? o.bias + j : nullptr;
        Columns<true>(g, rows, columns);
        j += columns;
      }
    }
  }
}

// Of `groups` groups of rows spread over the matrix, pieces of `piece` p, one every `step`: the
// share of those p that are to be multiplied.
double Sample(const GemmF32Operands& o, int64_t groups, int64_t piece, int64_t step) {
  int32_t list[16 + kAhead + 1];
  const int64_t all = o.m / kGemmSkipRows, some = std::min(groups, all), apart = all / some;
  int64_t row = (all - 1 - (some - 1) * apart) / 2 * kGemmSkipRows;
  int64_t count = 0, looked_at = 0;
  for (int64_t i = 0; i < some; ++i, row += apart * kGemmSkipRows) {
    for (int64_t p = 0; p < o.k; p += step) {
      const int64_t n = std::min(piece, o.k - p);
      count += List(o.a + row * o.a_row + p * o.a_col, o.a_row, o.a_col, kGemmSkipRows, n, list);
      looked_at += n;
    }
  }
  return static_cast<double>(count) / static_cast<double>(looked_at);
}

// A few lines first: where hardly anything is to be left out among them, no more are read.
double SampledShare(const GemmF32Operands& o, int64_t groups) {
  constexpr double kDense = 0.95;
  const double first = Sample(o, 2, 8, std::max<int64_t>(8, (o.k + 3) / 4));
  return first >= kDense ? first : Sample(o, groups, 16, 48);
}

}  // namespace

extern const GemmF32Table kGemmF32;
const GemmF32Table kGemmF32 = {kWide, &Product, &ProductSkipping, &SampledShare};

}  // namespace troupe::TROUPE_ISA
