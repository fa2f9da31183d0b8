// What the ops of the Relu family share: kernels over the loops of
// kernels/elementwise/activation_loops.h.
//
// Thread rule: as for all kernels (troupe/kernel.h); the elements are shared out among the compute
// threads.
#ifndef TROUPE_KERNELS_NN_ACTIVATION_H_
#define TROUPE_KERNELS_NN_ACTIVATION_H_

#include "kernels/elementwise/activation_loops.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {

// y = f(x). The buffer of x is reused when nobody else holds it. `alpha` is the attr of that name
// where the op has one.
class ActivationKernel {
 public:
  ActivationKernel(KernelInit& init, Activation f);
  absl::Status Compute(KernelContext& ctx);

 private:
  const Activation f_;
  const DType dtype_;
  float alpha_ = 0;
};

// dx = dy * f'(x) for inputs (dy, x), whose shapes must be equal: INVALID_ARGUMENT names both.
class ActivationGradKernel {
 public:
  ActivationGradKernel(KernelInit& init, Activation f);
  absl::Status Compute(KernelContext& ctx);

 private:
  const Activation f_;
  const DType dtype_;
  float alpha_ = 0;
};

template <Activation kF>
struct ActivationOf : ActivationKernel {
  explicit ActivationOf(KernelInit& init) : ActivationKernel(init, kF) {}
};
template <Activation kF>
struct ActivationGradOf : ActivationGradKernel {
  explicit ActivationGradOf(KernelInit& init) : ActivationGradKernel(init, kF) {}
};

// The gradients of the gradients: of ReluGrad and Relu6Grad, which are piecewise constant in the
// features, so that nothing flows to these; and of EluGrad and SeluGrad.
absl::Status PiecewiseLinearGradGradient(GradientContext& g);
absl::Status ExponentialGradGradient(GradientContext& g);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_ACTIVATION_H_
