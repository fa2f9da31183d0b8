// RandomPoisson: samples of Poisson distributions.
#include "kernels/random/poisson.h"
#include "kernels/random/random_kernel.h"

namespace troupe {
namespace {

TROUPE_OP("RandomPoisson")
    .Input("shape: S")
    .Input("rate: dtype")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("S: {int32, int64}")
    .Attr("dtype: {half, float, double}")
    .Stateful()
    .Deprecated(25, "Replaced by RandomPoissonV2")
    .Shape(random::PerParameterShape)
    .NotDifferentiable("counts do not follow their rates continuously")
    .Doc(
        "For each element of `rate` samples of the Poisson distribution with that mean: output [shape..., rate's "
        "shape...]. Equal seeds\n"
        "give equal sequences; seeds 0, 0 one that differs each time.");

TROUPE_KERNEL("RandomPoisson")
    .Device("CPU")
    .Type<Half, float, double>("dtype")
    .HostMemory("shape")
    .Class<random::RandomPoissonKernel>();

}  // namespace
}  // namespace troupe
