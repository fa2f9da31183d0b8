// Multinomial: classes drawn by their log-probabilities.
#include "kernels/random/distributions.h"
#include "kernels/random/sample_classes.h"

namespace troupe {
namespace {

TROUPE_OP("Multinomial")
    .Input("logits: T")
    .Input("num_samples: int32")
    .Output("output: output_dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("T: realnumbertype")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Stateful()
    .Shape(random::SampleClassesShape)
    .NotDifferentiable("its value is an integer")
    .Doc("For each row of `logits`, `num_samples` classes drawn with probabilities softmax(row).");

class MultinomialKernel {
 public:
  explicit MultinomialKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    return random::SampleClasses(ctx, [&](int64_t batch, int64_t samples) {
      return source_.ReserveNumbers(ctx, batch * ((samples + 3) / 4 * 4) * 2);
    });
  }

 private:
  random::RandomSource source_;
};
TROUPE_KERNEL("Multinomial").Device("CPU").Class<MultinomialKernel>();

}  // namespace
}  // namespace troupe
