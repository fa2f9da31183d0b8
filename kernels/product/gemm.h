// Matrix products for every numeric dtype, behind one door.
//
// C[m,n] = op(A)[m,k] * op(B)[k,n], all row major with a leading dimension (the elements from one
// stored row to the next). op is nothing, the transpose (A is then stored as [k,m]) or, for complex
// types with conj_*, also the conjugate. k = 0 gives zeros.
//
// float32 products of a few thousand multiplications go to the tiled loops of gemm_isa.cc; those of
// middling size (docs/matmul.md gives the bounds), those of a vector and a matrix, and those whose
// left operand is mostly zeros to our own loops (gemm_f32.h), the others to oneDNN; float64 and the
// integers (modulo 2^bits) to the tiled loops; float16 and bfloat16 are converted to float32 and
// rounded once; complex products are four real ones.
//
// Zeros: a product that leaves them out does so only when the right operand is finite, so that 0 *
// infinity is NaN as ever.
//
// Bits: unless tuning is on, which way a product goes depends on its shape and on its operands,
// never on time, and the ranges into which it is split on its sizes and the number of threads, so
// that results repeat bit for bit. Tuning (troupe/tuning.h) takes other loops and ranges for
// float32 products by own loops, panels or oneDNN: with kFixed those of a file, which repeat as
// well; with kSameBits those that measured times choose among ways of equal bits; with kAll those
// that measured times choose among all, so that the last bits may differ.
//
// Thread rule: reentrant. With `threads` the rows or columns of C are split among them; null
// computes on the caller.
#ifndef TROUPE_KERNELS_PRODUCT_GEMM_H_
#define TROUPE_KERNELS_PRODUCT_GEMM_H_

#include <cstdint>

#include "kernels/product/bias_activation.h"
#include "troupe/compute_threads.h"
#include "troupe/dtype.h"

namespace troupe {

struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool conj_a = false, conj_b = false;
};

// Dense operands of `dtype` (one of NumberTypes, without the quantized ones). False when the dtype
// has no product. `panels`: of b, from PackPanels, or null.
bool Gemm(ComputeThreads* threads, DType dtype, const GemmShape& shape, const void* a, const void* b, void* c,
          const float* panels = nullptr);

// The same in float32, with a vector of n added to every row of C and an activation behind it
// (bias_activation.h), for the bits of a pass of its own.
void GemmBiasActivation(ComputeThreads* threads, const GemmShape& shape, const float* a, const float* b,
                        const float* bias, FusedActivation activation, float alpha, float* c,
                        const float* panels = nullptr);

// Whether a float32 product is faster when B is given in panels, too. By its shape alone.
bool GemmTakesPanels(const GemmShape& shape);
// Copies B, k * n floats, into panels: columns that our loops take at once, row by row, one panel
// behind the other. REQUIRES: GemmTakesPanels(shape).
void PackPanels(const GemmShape& shape, const float* b, float* panels);

// With leading dimensions; `accumulate` adds to C. The caller's thread only.
void GemmStrided(const GemmShape& shape, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                 int64_t ldc, bool accumulate);
void GemmStrided(const GemmShape& shape, const double* a, int64_t lda, const double* b, int64_t ldb, double* c,
                 int64_t ldc, bool accumulate);
void GemmStrided(const GemmShape& shape, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, uint32_t* c,
                 int64_t ldc, bool accumulate);
void GemmStrided(const GemmShape& shape, const uint64_t* a, int64_t lda, const uint64_t* b, int64_t ldb, uint64_t* c,
                 int64_t ldc, bool accumulate);

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_GEMM_H_
