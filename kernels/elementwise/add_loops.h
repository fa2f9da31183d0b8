// The loops of addition, which several ops share.
#ifndef TROUPE_KERNELS_MATH_ADD_LOOPS_H_
#define TROUPE_KERNELS_MATH_ADD_LOOPS_H_

#include "kernels/math/elementwise.h"

namespace troupe::math {

const BinaryTable& AddTable();
// AddN and AccumulateNV2: the sum of tensors of one shape.
absl::StatusOr<PreparedKernel> MakeAddN(KernelInit& init);
absl::Status AddNGradient(GradientContext& g);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_MATH_ADD_LOOPS_H_
