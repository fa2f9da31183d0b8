// What TopK and TopKV2 share.
#ifndef TROUPE_KERNELS_NN_TOP_K_H_
#define TROUPE_KERNELS_NN_TOP_K_H_

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {

// k = -1: not known.
absl::Status TopKShape(InferenceContext& c, int64_t k);
absl::Status TopKGradient(GradientContext& g);
// The k largest of each row of input 0, largest first, and their columns; of equal ones the one
// further left comes first.
absl::Status ComputeTopK(KernelContext& ctx, int64_t k);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_TOP_K_H_
