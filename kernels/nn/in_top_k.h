// What InTopK and InTopKV2 share.
#ifndef TROUPE_KERNELS_NN_IN_TOP_K_H_
#define TROUPE_KERNELS_NN_IN_TOP_K_H_

#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {

absl::Status InTopKShape(InferenceContext& c);
// output[i] = whether fewer than k predictions of row i are larger than that of its target. False
// when the target is out of range, or a prediction that matters is not finite.
absl::Status ComputeInTopK(KernelContext& ctx, int64_t k);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_IN_TOP_K_H_
