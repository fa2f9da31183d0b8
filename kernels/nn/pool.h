// What the pooling ops share: kernels over the loops of pool_isa.cc, shape functions, attrs.
//
// Thread rule: as for all kernels (troupe/kernel.h); the images are shared out among the compute
// threads.
#ifndef TROUPE_KERNELS_NN_POOL_H_
#define TROUPE_KERNELS_NN_POOL_H_

#include "kernels/nn/window.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {

enum class PoolOp : uint8_t { kMax, kMaxGrad, kMaxGradGrad, kAvg, kAvgGrad };

// Shape of a pooling of input 0 by attrs ksize and strides.
absl::Status PoolOutputShape(InferenceContext& c);
// The attrs that say how the windows slide, for the next op of a family.
AttrMap PoolAttrs(GradientContext& g);

// Inputs by op: Max, Avg: (x); MaxGrad: (x, y, dy); MaxGradGrad: (x, y, ddx); AvgGrad: (shape of x,
// dy). The V2 ops (`window_inputs`) have ksize and strides as two more inputs.
class PoolKernel {
 public:
  PoolKernel(KernelInit& init, PoolOp op, bool window_inputs);
  absl::Status Compute(KernelContext& ctx);

 private:
  struct Problem {  // what the inputs of a node ask for
    WindowAttrs attrs;
    TensorShape in, out;  // of what is pooled, and of the result
    WindowExtent y, x;
  };
  absl::StatusOr<Problem> Read(const KernelContext& ctx) const;
  // The input that is handed on through the windows; none for Max and Avg.
  absl::StatusOr<Tensor> Incoming(const KernelContext& ctx, const Problem& p) const;

  const PoolOp op_;
  const bool window_inputs_;
  const DType dtype_;
  WindowAttrs attrs_;
};

template <PoolOp kOp, bool kWindowInputs = false>
struct PoolKernelOf : PoolKernel {
  explicit PoolKernelOf(KernelInit& init) : PoolKernel(init, kOp, kWindowInputs) {}
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_POOL_H_
