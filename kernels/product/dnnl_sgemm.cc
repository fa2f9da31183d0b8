#include "kernels/product/dnnl_sgemm.h"

#include <dnnl.h>

#include "kernels/common/dnnl_single_thread.h"

namespace troupe {

bool DnnlSgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
               const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  DnnlSingleThread guard;
  return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb,
                    accumulate ? 1.0f : 0.0f, c, ldc) == dnnl_success;
}

}  // namespace troupe
