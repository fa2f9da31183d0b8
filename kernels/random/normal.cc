// RandomStandardNormal: numbers of the standard normal distribution; TruncatedNormal: the same,
// with those beyond 2 drawn again; and their stateless forms, which are functions of a seed.
#include "kernels/random/random_kernel.h"

namespace troupe::random {
namespace {

TROUPE_OP("RandomStandardNormal")
    .Input("shape: T")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("dtype: {half, bfloat16, float, double}")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Shape(shape_fn::FromShapeInput0)
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "Numbers of the normal distribution with mean 0 and standard deviation 1, in a tensor of this shape. Equal "
        "seeds give equal sequences; seeds 0, 0 one that differs each time.");

TROUPE_KERNEL("RandomStandardNormal").Device("CPU").Class<RandomKernel<Normal>>();

TROUPE_OP("StatelessRandomNormal")
    .Input("shape: T")
    .Input("seed: Tseed")
    .Output("output: dtype")
    .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")
    .Attr("T: {int32, int64} = DT_INT32")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Shape(StatelessShape)
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "Numbers of the normal distribution with mean 0 and standard deviation 1, in a tensor of this shape: the same "
        "ones whenever the two numbers of `seed` are the same.");

TROUPE_KERNEL("StatelessRandomNormal").Device("CPU").Function<ComputeStateless<Normal>>();

TROUPE_OP("TruncatedNormal")
    .Input("shape: T")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("dtype: {half, bfloat16, float, double}")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Shape(shape_fn::FromShapeInput0)
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "Numbers of the standard normal distribution, those beyond 2 drawn again, in a tensor of this shape. Equal "
        "seeds give equal sequences; seeds 0, 0 one that differs each time.");

TROUPE_KERNEL("TruncatedNormal").Device("CPU").Class<RandomKernel<TruncatedNormal>>();

TROUPE_OP("StatelessTruncatedNormal")
    .Input("shape: T")
    .Input("seed: Tseed")
    .Output("output: dtype")
    .Attr("dtype: {half, bfloat16, float, double} = DT_FLOAT")
    .Attr("T: {int32, int64} = DT_INT32")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Shape(StatelessShape)
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "Numbers of the standard normal distribution, those beyond 2 drawn again, in a tensor of this shape: the same "
        "ones whenever the two numbers of `seed` are the same.");

TROUPE_KERNEL("StatelessTruncatedNormal").Device("CPU").Function<ComputeStateless<TruncatedNormal>>();

}  // namespace
}  // namespace troupe::random
