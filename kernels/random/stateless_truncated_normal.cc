// StatelessTruncatedNormal: numbers of the standard normal distribution, those beyond 2 drawn
// again, as a function of a seed.
#include "kernels/random/random_kernel.h"

namespace troupe {
namespace {

TROUPE_OP("StatelessTruncatedNormal")
    .Input("shape: T")
    .Input("seed: Tseed")
    .Output("output: dtype")
    .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")
    .Attr("T: {int32, int64} = DT_INT32")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Shape(random::StatelessShape)
    .NotDifferentiable(random::kWhyNoGradient)
    .Doc(
        "Numbers of the standard normal distribution, those beyond 2 drawn again, in a tensor of this shape: the same "
        "ones whenever the two numbers of `seed` are the same.");

TROUPE_KERNEL("StatelessTruncatedNormal").Device("CPU").Function<random::ComputeStateless<random::TruncatedNormal>>();

}  // namespace
}  // namespace troupe
