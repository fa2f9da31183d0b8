// RandomUniformInt: uniform integers.
#include "kernels/random/random_kernel.h"

namespace troupe {
namespace {

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
    .NotDifferentiable(random::kWhyNoGradient)
    .Doc(
        "Integers of [minval, maxval) in a tensor of this shape; those at the low end come a little more often unless "
        "maxval - minval is a power of two.");

class RandomUniformIntKernel {
 public:
  explicit RandomUniformIntKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    return random::FillUniformInt(ctx, 1, [&] { return source_.ReserveNumbers(ctx, ctx.output(0)->num_elements()); });
  }

 private:
  random::RandomSource source_;
};
TROUPE_KERNEL("RandomUniformInt").Device("CPU").Class<RandomUniformIntKernel>();

}  // namespace
}  // namespace troupe
