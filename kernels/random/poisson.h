// What RandomPoisson and RandomPoissonV2 share.
#ifndef TROUPE_KERNELS_RANDOM_POISSON_H_
#define TROUPE_KERNELS_RANDOM_POISSON_H_

#include "kernels/random/per_parameter.h"

namespace troupe::random {

// Input 0 is the shape, input 1 the rates.
class RandomPoissonKernel {
 public:
  explicit RandomPoissonKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx);

 private:
  RandomSource source_;
};

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_POISSON_H_
