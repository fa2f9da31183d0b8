// float32 products that our own loops compute: of middling size, and with a left operand that is
// mostly zeros.
//
// Problem: the library packs both operands before it multiplies. For a product of middling size
// (docs/matmul.md gives the bounds) that costs more than it brings, and it multiplies zeros like
// any other numbers: four fifths of an image of a digit, all but one element of a one-hot row.
//
// C[i,j] (row stride ldc) = sum over p of A(i,p) * B(p,j), then + bias[j] and the activation where
// asked for; A(i,p) = a[i*a_row + p*a_col] and so on: a transpose is a choice of strides, and one
// stride of B is 1. k >= 1. Every element of C is summed in the same order whatever m and n are and
// wherever a range of rows or columns starts, so that any split among threads gives the same bits.
// The bias is added and the activation taken with the bits of a pass afterwards.
//
// Skipping: groups of kGemmSkipRows rows leave out those p for which all their A(i,p) are zero.
// That changes no sum as long as B is finite, which the caller has made sure of.
//
// Thread rule: pure functions of their operands.
#ifndef TROUPE_KERNELS_PRODUCT_GEMM_F32_H_
#define TROUPE_KERNELS_PRODUCT_GEMM_F32_H_

#include <cstdint>

namespace troupe {

// What the loops can do behind the sum.
enum class GemmActivation : uint8_t { kNone, kRelu, kRelu6 };

struct GemmF32Operands {
  int64_t m, n, k;
  const float* a;
  int64_t a_row, a_col;
  const float* b;
  int64_t b_row, b_col;
  float* c;
  int64_t ldc;
  bool accumulate = false;      // adds to C; without bias and activation
  const float* bias = nullptr;  // n of them
  GemmActivation activation = GemmActivation::kNone;
};

// Rows of C that share a list of what is skipped; a range of rows that is split off starts at a
// multiple of it.
constexpr int kGemmSkipRows = 8;

struct GemmF32Table {
  int panel;  // columns that the loops take at once
  void (*product)(const GemmF32Operands&);
  // REQUIRES: b_col == 1, no accumulate.
  void (*product_skipping)(const GemmF32Operands&);
  // The share of the pairs (group of rows, p) that are to be multiplied, by a sample of up to
  // `groups` groups spread over the matrix. REQUIRES: m >= kGemmSkipRows.
  double (*sampled_share)(const GemmF32Operands&, int64_t groups);
};

struct GemvF32Table {
  // A vector and a matrix of k rows of n, rows `stride` apart: c[j] = sum over p of x[p] * b[p][j],
  // in order of p.
  void (*vector_rows)(const float* x, const float* b, int64_t stride, int64_t k, int64_t n, float* c);
  // The same with the matrix transposed: c[j] = sum over p of x[p] * b[j][p], n rows of k. The
  // order of a sum depends on k only.
  void (*vector_dots)(const float* x, const float* b, int64_t stride, int64_t k, int64_t n, float* c);
  // No infinity and no NaN among n floats.
  bool (*all_finite)(const float*, int64_t n);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_GEMM_F32_H_
