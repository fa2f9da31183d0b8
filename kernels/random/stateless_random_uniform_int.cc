// StatelessRandomUniformInt: uniform integers, as a function of a seed.
#include "kernels/random/random_kernel.h"

namespace troupe {
namespace {

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
      return random::StatelessShape(c);
    })
    .NotDifferentiable(random::kWhyNoGradient)
    .Doc(
        "Integers of [minval, maxval) in a tensor of this shape: the same ones whenever the two numbers of `seed` are "
        "the same.");

absl::Status ComputeStatelessUniformInt(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const random::Philox start, random::StreamOfSeed(ctx, 1));
  return random::FillUniformInt(ctx, 2, [&]() -> absl::StatusOr<random::Philox> { return start; });
}
TROUPE_KERNEL("StatelessRandomUniformInt").Device("CPU").Function<ComputeStatelessUniformInt>();

}  // namespace
}  // namespace troupe
