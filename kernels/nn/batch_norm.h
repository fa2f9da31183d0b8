// What the three versions of FusedBatchNorm and of its gradient share. x has rank 4 or 5, and the
// other inputs one element for each channel: INVALID_ARGUMENT otherwise.
//
// Thread rule: as for all kernels (troupe/kernel.h); the rows are shared out among the compute
// threads.
#ifndef TROUPE_KERNELS_NN_BATCH_NORM_H_
#define TROUPE_KERNELS_NN_BATCH_NORM_H_

#include <vector>

#include "kernels/nn/batch_norm_loops.h"
#include "kernels/nn/conv_epilogue.h"
#include "kernels/replaced_nodes.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {

absl::Status BatchNormShape(InferenceContext& c);
absl::Status BatchNormGradShape(InferenceContext& c);
// The gradient of a FusedBatchNorm by op `grad_op`.
absl::Status BatchNormGradient(GradientContext& g, const char* grad_op);

// What the vectors scale, offset, mean and variance, the inputs from `first` on, do to images of so
// many channels, by given statistics: y = (x - mean) * factor + offset. INVALID_ARGUMENT names the
// vector that does not fit.
struct GivenNorm {
  Tensor mean, offset;  // float32, of a number a channel
  std::vector<float> factor;
  // Valid as long as this is.
  ChannelNorm channels() const { return {mean.data<float>(), factor.data(), offset.data<float>()}; }
};
absl::StatusOr<GivenNorm> ReadGivenNorm(const KernelContext& ctx, int first, int64_t channels, float epsilon);

// Inputs (x, scale, offset, mean, variance); outputs (y, mean and variance to keep, two or three
// reserves for the gradient). Where is_training: y is normalised by the batch's own mean and
// variance, and what is kept is these (the variance corrected for its bias), blended into the
// inputs mean and variance by exponential_avg_factor when that is not 1. With an attr
// activation_mode, y goes through that.
class BatchNormKernel {
 public:
  explicit BatchNormKernel(KernelInit& init);
  absl::Status Compute(KernelContext& ctx);

 private:
  absl::Status Normalise(KernelContext& ctx) const;

  float epsilon_, factor_;
  bool channels_first_, training_;
  NormActivation activation_;
  const ReplacedNodes replaced_;
};

// Inputs (dy, x, scale, mean, variance, ...); outputs (dx, d scale, d offset, two unused ones).
// With an attr activation_mode, dy is the gradient of what that gave, and the last inputs are the
// reserve, offset and y.
class BatchNormGradKernel {
 public:
  explicit BatchNormGradKernel(KernelInit& init);
  absl::Status Compute(KernelContext& ctx);

 private:
  absl::Status Differentiate(KernelContext& ctx) const;

  float epsilon_;
  bool channels_first_, training_;
  NormActivation activation_;
  const ReplacedNodes replaced_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_BATCH_NORM_H_
