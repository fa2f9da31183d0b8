// Cumsum and Cumprod: running sums and products along one axis.
#ifndef TROUPE_KERNELS_SCAN_SCAN_H_
#define TROUPE_KERNELS_SCAN_SCAN_H_

#include "troupe/kernel.h"

namespace troupe::math {

// out[i] is the fold of x[0..i], without x[i] when exclusive, from the other end when reverse.
// Floats are accumulated in double.
absl::StatusOr<PreparedKernel> MakeCumsum(KernelInit& init);
absl::StatusOr<PreparedKernel> MakeCumprod(KernelInit& init);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_SCAN_SCAN_H_
