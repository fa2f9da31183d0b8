// What BatchMatMul and BatchMatMulV2 share: matrix products over leading batch dimensions.
#ifndef TROUPE_KERNELS_PRODUCT_BATCH_MATMUL_H_
#define TROUPE_KERNELS_PRODUCT_BATCH_MATMUL_H_

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {

// x: [..., r_x, c_x], y: [..., r_y, c_y]; with adj_x (adj_y) the matrices of x (y) are conjugated
// and transposed first. V2's batch dimensions broadcast; V1's must be equal.
absl::Status BatchMatMulShape(InferenceContext& c, bool broadcast);
absl::Status BatchMatMulGradient(GradientContext& g, const char* op, bool broadcast);

class BatchMatMulKernel {
 public:
  BatchMatMulKernel(KernelInit& init, bool broadcast)
      : dtype_(init.input_type(0)),
        adj_x_(init.Attr<bool>("adj_x")),
        adj_y_(init.Attr<bool>("adj_y")),
        broadcast_(broadcast) {}
  absl::Status Compute(KernelContext& ctx);

 private:
  const DType dtype_;
  const bool adj_x_, adj_y_, broadcast_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_BATCH_MATMUL_H_
