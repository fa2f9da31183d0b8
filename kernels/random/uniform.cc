// RandomUniform: numbers drawn uniformly from [0, 1); RandomUniformInt: uniform integers; and their
// stateless forms, which are functions of a seed.
#include "kernels/random/random_kernel.h"

namespace troupe::random {
namespace {

constexpr char kUniform[] = "Numbers drawn uniformly from [0, 1)";

const OpRegistrar random_uniform = NumbersOp("RandomUniform", kUniform);

TROUPE_KERNEL("RandomUniform").Device("CPU").Class<RandomKernel<Uniform>>();

const OpRegistrar stateless_random_uniform = StatelessNumbersOp("StatelessRandomUniform", kUniform);

TROUPE_KERNEL("StatelessRandomUniform").Device("CPU").Function<ComputeStateless<Uniform>>();

TROUPE_OP("RandomUniformInt")
    .Input("shape: T")
    .Input("minval: Tout")
    .Input("maxval: Tout")
    .Output("output: Tout")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("Tout: {int32, int64}")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
      TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
      return shape_fn::FromShapeInput0(c);
    })
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "Integers of [minval, maxval) in a tensor of this shape; those at the low end come a little more often unless "
        "maxval - minval is a power of two.");

class RandomUniformIntKernel {
 public:
  explicit RandomUniformIntKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    return FillUniformInt(ctx, 1, [&] { return source_.ReserveNumbers(ctx, ctx.output(0)->num_elements()); });
  }

 private:
  RandomSource source_;
};
TROUPE_KERNEL("RandomUniformInt").Device("CPU").Class<RandomUniformIntKernel>();

TROUPE_OP("StatelessRandomUniformInt")
    .Input("shape: T")
    .Input("seed: Tseed")
    .Input("minval: dtype")
    .Input("maxval: dtype")
    .Output("output: dtype")
    .Attr("dtype: {int32, int64}")
    .Attr("T: {int32, int64}")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
      TROUPE_RETURN_IF_ERROR(c.WithRank(3, 0).status());
      return StatelessShape(c);
    })
    .NotDifferentiable(kWhyNoGradient)
    .Doc(
        "Integers of [minval, maxval) in a tensor of this shape: the same ones whenever the two numbers of `seed` are "
        "the same.");

absl::Status ComputeStatelessUniformInt(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Philox start, StreamOfSeed(ctx, 1));
  return FillUniformInt(ctx, 2, [&]() -> absl::StatusOr<Philox> { return start; });
}
TROUPE_KERNEL("StatelessRandomUniformInt").Device("CPU").Function<ComputeStatelessUniformInt>();

}  // namespace
}  // namespace troupe::random
