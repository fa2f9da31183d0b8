// Register-tiled matrix products: small float32 products, float64 and integers.
//
// A tile of C (kRows x kVectors vectors) stays in registers while p runs; A is read by broadcast,
// in place under any strides; B is read in place when its rows are contiguous and whole vectors
// wide, otherwise a panel of it is packed first. The p loop is cut into blocks so that the panel
// stays in the first-level cache.
#include "kernels/product/gemm_tile.h"

#include <cstddef>

namespace troupe::TROUPE_ISA {
namespace {

#if TROUPE_ISA_LEVEL >= 4
constexpr int kVectorBytes = 64, kRows = 8, kVectors = 2;
#elif TROUPE_ISA_LEVEL == 3
constexpr int kVectorBytes = 32, kRows = 4, kVectors = 3;
#else
constexpr int kVectorBytes = 16, kRows = 4, kVectors = 2;
#endif
constexpr int64_t kBlock = 256;  // of p

template <class T, int B>
struct VectorOf {
  typedef T type __attribute__((vector_size(B)));
  typedef T unaligned __attribute__((vector_size(B), aligned(alignof(T)), may_alias));
};

template <class T, int B = kVectorBytes>
constexpr int kLanes = B / static_cast<int>(sizeof(T));
template <class T>
constexpr int kColumns = kVectors* kLanes<T>;

// R rows of C at c, V vectors of B bytes wide, of which `columns` columns are wanted.
template <class T, int R, int V, int B>
inline __attribute__((always_inline)) void Tile(int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b,
                                                int64_t b_row, T* c, int64_t ldc, int64_t columns, bool accumulate) {
  using Vec = typename VectorOf<T, B>::type;
  using Load = typename VectorOf<T, B>::unaligned;
  constexpr int kWide = kLanes<T, B>;
  Vec acc[R][V] = {};
  for (int64_t p = 0; p < k; ++p) {
    Vec bv[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) bv[v] = *reinterpret_cast<const Load*>(b + p * b_row + v * kWide);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const T x = a[r * a_row + p * a_col];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] += bv[v] * x;
    }
  }
  if (columns == V * kWide) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        Load* out = reinterpret_cast<Load*>(c + r * ldc + v * kWide);
        *out = accumulate ? *out + acc[r][v] : acc[r][v];
      }
    }
    return;
  }
  alignas(64) T edge[V * kWide];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) *reinterpret_cast<Load*>(edge + v * kWide) = acc[r][v];
    for (int64_t j = 0; j < columns; ++j) c[r * ldc + j] = accumulate ? c[r * ldc + j] + edge[j] : edge[j];
  }
}

template <class T, int V, int B = kVectorBytes>
void Columns(const TileOperands<T>& o, int64_t k, const T* a, const T* b, int64_t b_row, T* c, int64_t columns,
             bool accumulate) {
  int64_t i = 0;
  for (; i + kRows <= o.m; i += kRows) {
    Tile<T, kRows, V, B>(k, a + i * o.a_row, o.a_row, o.a_col, b, b_row, c + i * o.ldc, o.ldc, columns, accumulate);
  }
  if (kRows > 4 && i + 4 <= o.m) {
    Tile<T, 4, V, B>(k, a + i * o.a_row, o.a_row, o.a_col, b, b_row, c + i * o.ldc, o.ldc, columns, accumulate);
    i += 4;
  }
  if (i + 2 <= o.m) {
    Tile<T, 2, V, B>(k, a + i * o.a_row, o.a_row, o.a_col, b, b_row, c + i * o.ldc, o.ldc, columns, accumulate);
    i += 2;
  }
  if (i < o.m)
    Tile<T, 1, V, B>(k, a + i * o.a_row, o.a_row, o.a_col, b, b_row, c + i * o.ldc, o.ldc, columns, accumulate);
}

template <class T>
void Product(const TileOperands<T>& o) {
  alignas(64) T panel[kBlock * kColumns<T>];
  if (o.k == 0 && !o.accumulate) {
    for (int64_t i = 0; i < o.m; ++i) {
      for (int64_t j = 0; j < o.n; ++j) o.c[i * o.ldc + j] = T(0);
    }
  }
  for (int64_t p = 0; p < o.k; p += kBlock) {
    const int64_t k = o.k - p < kBlock ? o.k - p : kBlock;
    const bool accumulate = o.accumulate || p > 0;
    for (int64_t j = 0; j < o.n; j += kColumns<T>) {
      const int64_t columns = o.n - j < kColumns<T> ? o.n - j : kColumns<T>;
      const T* b = o.b + p * o.b_row + j * o.b_col;
      int64_t b_row = o.b_row;
      // Packing pays for itself when several tiles read the panel from far apart rows; it must be
      // done for edges and strides. Few columns are read as one vector, or half of one.
      constexpr int kHalf = kVectorBytes / 2;
      const int64_t width = columns == kLanes<T, kHalf> ? columns : columns <= kLanes<T> ? kLanes<T> : kColumns<T>;
      if (o.b_col != 1 || columns < width || (b_row > 512 && o.m >= 4 * kRows)) {
        if (o.b_col == 1) {
          for (int64_t q = 0; q < k; ++q) {
            const T* from = b + q * o.b_row;
            T* to = panel + q * kColumns<T>;
            for (int64_t x = 0; x < columns; ++x) to[x] = from[x];
            for (int64_t x = columns; x < kColumns<T>; ++x) to[x] = T(0);
          }
        } else {
          for (int64_t x = 0; x < kColumns<T>; ++x) {
            for (int64_t q = 0; q < k; ++q) {
              panel[q * kColumns<T> + x] = x < columns ? b[q * o.b_row + x * o.b_col] : T(0);
            }
          }
        }
        b = panel;
        b_row = kColumns<T>;
      }
      if (columns == kLanes<T, kHalf>) {
        Columns<T, 1, kHalf>(o, k, o.a + p * o.a_col, b, b_row, o.c + j, columns, accumulate);
      } else if (columns <= kLanes<T>) {
        Columns<T, 1>(o, k, o.a + p * o.a_col, b, b_row, o.c + j, columns, accumulate);
      } else {
        Columns<T, kVectors>(o, k, o.a + p * o.a_col, b, b_row, o.c + j, columns, accumulate);
      }
    }
  }
}

}  // namespace

extern const GemmTileTable kGemmTiles;
const GemmTileTable kGemmTiles = {&Product<float>, &Product<double>, &Product<uint32_t>, &Product<uint64_t>};

}  // namespace troupe::TROUPE_ISA
