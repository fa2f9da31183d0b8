// RandomUniform: numbers drawn uniformly from [0, 1).
#include "kernels/random/random_kernel.h"

namespace troupe {
namespace {

TROUPE_OP("RandomUniform")
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
        "Numbers drawn uniformly from [0, 1), in a tensor of this shape. Equal seeds give equal sequences; seeds 0, 0 "
        "one that differs each time.");

TROUPE_KERNEL("RandomUniform").Device("CPU").Class<random::RandomKernel<random::Uniform>>();

}  // namespace
}  // namespace troupe
