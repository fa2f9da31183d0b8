// TruncatedNormal: numbers of the standard normal distribution, those beyond 2 drawn again.
#include "kernels/random/random_kernel.h"

namespace troupe {
namespace {

TROUPE_OP("TruncatedNormal")
    .Input("shape: T")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("dtype: {half, bfloat16, float, double}")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Shape(shape_fn::FromShapeInput0)
    .NotDifferentiable(random::kWhyNoGradient)
    .Doc(
        "Numbers of the standard normal distribution, those beyond 2 drawn again, in a tensor of this shape. Equal "
        "seeds give equal sequences; seeds 0, 0 one that differs each time.");

TROUPE_KERNEL("TruncatedNormal").Device("CPU").Class<random::RandomKernel<random::TruncatedNormal>>();

}  // namespace
}  // namespace troupe
