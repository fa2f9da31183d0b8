// StatelessMultinomial: classes drawn by their log-probabilities, as a function of a seed.
#include "kernels/random/random_kernel.h"
#include "kernels/random/sample_classes.h"

namespace troupe {
namespace {

TROUPE_OP("StatelessMultinomial")
    .Input("logits: T")
    .Input("num_samples: int32")
    .Input("seed: Tseed")
    .Output("output: output_dtype")
    .Attr("T: realnumbertype")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(random::CheckSeedShape(c, 2));
      return random::SampleClassesShape(c);
    })
    .NotDifferentiable("its value is an integer")
    .Doc("Multinomial that draws the same classes whenever the two numbers of `seed` are the same.");

absl::Status ComputeStatelessMultinomial(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const random::Philox start, random::StreamOfSeed(ctx, 2));
  return random::SampleClasses(ctx, [&](int64_t, int64_t) -> absl::StatusOr<random::Philox> { return start; });
}
TROUPE_KERNEL("StatelessMultinomial").Device("CPU").Function<ComputeStatelessMultinomial>();

}  // namespace
}  // namespace troupe
