// The tiled product of gemm_isa.cc, as seen from outside: one function per element type and
// instruction level.
//
// C[i,j] (row stride ldc) is set to, or with `accumulate` increased by, sum over p of A(i,p) *
// B(p,j), where A(i,p) = a[i*a_row + p*a_col] and B(p,j) = b[p*b_row + j*b_col]: a transpose is a
// choice of strides.
//
// Thread rule: a product runs on the calling thread; C belongs to the caller.
#ifndef TROUPE_KERNELS_PRODUCT_GEMM_TILE_H_
#define TROUPE_KERNELS_PRODUCT_GEMM_TILE_H_

#include <cstdint>

namespace troupe {

template <class T>
struct TileOperands {
  int64_t m, n, k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* c;
  int64_t ldc;
  bool accumulate;
};

struct GemmTileTable {
  void (*f32)(const TileOperands<float>&);
  void (*f64)(const TileOperands<double>&);
  void (*u32)(const TileOperands<uint32_t>&);
  void (*u64)(const TileOperands<uint64_t>&);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_GEMM_TILE_H_
