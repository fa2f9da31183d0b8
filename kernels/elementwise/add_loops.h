// The loops of addition, which several ops share.
#ifndef TROUPE_KERNELS_ELEMENTWISE_ADD_LOOPS_H_
#define TROUPE_KERNELS_ELEMENTWISE_ADD_LOOPS_H_

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

const BinaryTable& AddTable();
// AddN and AccumulateNV2: the sum of tensors of one shape.
absl::StatusOr<PreparedKernel> MakeAddN(KernelInit& init);
absl::Status AddNGradient(GradientContext& g);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_ADD_LOOPS_H_
