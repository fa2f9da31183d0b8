// RandomStandardNormal: numbers of the standard normal distribution; TruncatedNormal: the same,
// with those beyond 2 drawn again; and their stateless forms, which are functions of a seed.
#include "kernels/random/random_kernel.h"

namespace troupe::random {
namespace {

constexpr char kNormal[] = "Numbers of the normal distribution with mean 0 and standard deviation 1";

const OpRegistrar random_standard_normal = NumbersOp("RandomStandardNormal", kNormal);

TROUPE_KERNEL("RandomStandardNormal").Device("CPU").Class<RandomKernel<Normal>>();

const OpRegistrar stateless_random_normal = StatelessNumbersOp("StatelessRandomNormal", kNormal);

TROUPE_KERNEL("StatelessRandomNormal").Device("CPU").Function<ComputeStateless<Normal>>();

constexpr char kTruncated[] = "Numbers of the standard normal distribution, those beyond 2 drawn again";

const OpRegistrar truncated_normal = NumbersOp("TruncatedNormal", kTruncated);

TROUPE_KERNEL("TruncatedNormal").Device("CPU").Class<RandomKernel<TruncatedNormal>>();

const OpRegistrar stateless_truncated_normal = StatelessNumbersOp("StatelessTruncatedNormal", kTruncated);

TROUPE_KERNEL("StatelessTruncatedNormal").Device("CPU").Function<ComputeStateless<TruncatedNormal>>();

}  // namespace
}  // namespace troupe::random
