// RandomPoissonV2: samples of Poisson distributions.
#include "kernels/random/poisson.h"
#include "kernels/random/random_kernel.h"

namespace troupe {
namespace {

TROUPE_OP("RandomPoissonV2")
    .Input("shape: S")
    .Input("rate: R")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("S: {int32, int64}")
    .Attr("R: {half, float, double, int32, int64} = DT_DOUBLE")
    .Attr("dtype: {half, float, double, int32, int64} = DT_INT64")
    .Stateful()

    .Shape(random::PerParameterShape)
    .NotDifferentiable("counts do not follow their rates continuously")
    .Doc(
        "For each element of `rate` samples of the Poisson distribution with that mean: output [shape..., rate's "
        "shape...]. Equal seeds\n"
        "give equal sequences; seeds 0, 0 one that differs each time.");

TROUPE_KERNEL("RandomPoissonV2")
    .Device("CPU")
    .Types("R", {DType::kHalf, DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64})
    .Types("dtype", {DType::kHalf, DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64})
    .HostMemory("shape")
    .Class<random::RandomPoissonKernel>();

}  // namespace
}  // namespace troupe
