// oneDNN's float32 product, on the calling thread alone: callers share out the work themselves.
//
// Thread rule: any thread.
#ifndef TROUPE_KERNELS_PRODUCT_DNNL_SGEMM_H_
#define TROUPE_KERNELS_PRODUCT_DNNL_SGEMM_H_

#include <cstdint>

namespace troupe {

// C[m,n] = op(A) * op(B) (+ C when `accumulate`), row major with leading dimensions. False when the
// library refuses.
bool DnnlSgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
               const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate);

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_DNNL_SGEMM_H_
