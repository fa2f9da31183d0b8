// Multinomial and StatelessMultinomial: classes drawn by their unnormalised log-probabilities.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/random/distributions.h"
#include "kernels/random/random_kernel.h"
#include "kernels/random/random_state.h"
#include "troupe/shape_inference.h"

namespace troupe::random {
namespace {

// Sums of exp(logit - the greatest logit); logits that are not finite have no probability.
template <class T>
void Cumulate(const T* logits, std::vector<double>* sums) {
  double greatest = std::numeric_limits<double>::lowest();
  const auto classes = static_cast<int64_t>(sums->size());
  for (int64_t j = 0; j < classes; ++j) {
    const auto v = static_cast<double>(logits[j]);
    if (std::isfinite(v)) greatest = std::max(greatest, v);
  }
  double total = 0;
  for (int64_t j = 0; j < classes; ++j) {
    const auto v = static_cast<double>(logits[j]);
    if (std::isfinite(v)) total += std::exp(v - greatest);
    (*sums)[j] = total;
  }
}

template <class T, class Out>
void Sample(KernelContext& ctx, const Philox& start, const T* logits, int64_t batch, int64_t classes, int64_t samples,
            Out* out) {
  // Two words per sample, rows one after another: row b begins at word 2 * samples * b.
  ctx.threads()->ParallelFor(
      batch, 10.0 * static_cast<double>(classes) + 20.0 * static_cast<double>(samples),
      [&](int64_t begin, int64_t end) {
        Philox philox = start;
        const uint64_t first = static_cast<uint64_t>(begin) * static_cast<uint64_t>(samples) * 2;
        philox.Skip(first / Philox::kWords);
        PhiloxWords words(philox);
        for (uint64_t i = 0; i < first % Philox::kWords; ++i) words();
        std::vector<double> sums(classes);
        for (int64_t b = begin; b < end; ++b) {
          Cumulate(logits + b * classes, &sums);
          for (int64_t j = 0; j < samples; ++j) {
            const uint32_t x0 = words(), x1 = words();
            const double wanted = UniformDouble(x0, x1) * sums.back();
            out[b * samples + j] = static_cast<Out>(std::upper_bound(sums.begin(), sums.end(), wanted) - sums.begin());
          }
        }
      });
}

// Output 0 [batch, num_samples] for logits at input 0 [batch, classes] and the scalar num_samples
// at input 1. `reserve(batch, num_samples)` gives the stream. INVALID_ARGUMENT for other shapes, no
// classes, or a negative number of samples.
absl::Status SampleClasses(KernelContext& ctx, const std::function<absl::StatusOr<Philox>(int64_t, int64_t)>& reserve) {
  const Tensor &logits = ctx.input(0), &number = ctx.input(1);
  if (logits.rank() != 2)
    return InvalidArgument("logits must be a matrix, but have shape ", logits.shape().DebugString());
  if (number.rank() != 0)
    return InvalidArgument("num_samples must be a scalar, but has shape ", number.shape().DebugString());
  const int64_t batch = logits.dim(0), classes = logits.dim(1), samples = number.scalar<int32_t>();
  if (samples < 0) return InvalidArgument("num_samples must not be negative, but is ", samples);
  if (classes <= 0) return InvalidArgument("there must be at least one class");
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make({batch, samples}));
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(const Philox start, reserve(batch, samples));
  const auto run = [&]<class T>() -> absl::Status {
    if constexpr (std::is_convertible_v<T, double> && !std::is_same_v<T, bool>) {
      if (out->dtype() == DType::kInt64) {
        Sample(ctx, start, logits.data<T>(), batch, classes, samples, out->data<int64_t>());
      } else {
        Sample(ctx, start, logits.data<T>(), batch, classes, samples, out->data<int32_t>());
      }
      return absl::OkStatus();
    } else {
      return Unimplemented("logits must be real numbers");
    }
  };
  return VisitNumeric<absl::Status>(logits.dtype(), Unimplemented("logits must be real numbers"), run);
}

absl::Status SampleClassesShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape logits, c.WithRank(0, 2));
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  const Tensor* const samples = c.input_tensor(1);
  c.set_output(0, PartialTensorShape({logits.dim(0), samples != nullptr ? samples->scalar<int32_t>() : -1}));
  return absl::OkStatus();
}

TROUPE_OP("Multinomial")
    .Input("logits: T")
    .Input("num_samples: int32")
    .Output("output: output_dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("T: realnumbertype")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Stateful()
    .Shape(SampleClassesShape)
    .NotDifferentiable("its value is an integer")
    .Doc("For each row of `logits`, `num_samples` classes drawn with probabilities softmax(row).");

class MultinomialKernel {
 public:
  explicit MultinomialKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    return SampleClasses(ctx, [&](int64_t batch, int64_t samples) {
      return source_.ReserveNumbers(ctx, batch * ((samples + 3) / 4 * 4) * 2);
    });
  }

 private:
  RandomSource source_;
};
TROUPE_KERNEL("Multinomial").Device("CPU").Class<MultinomialKernel>();

TROUPE_OP("StatelessMultinomial")
    .Input("logits: T")
    .Input("num_samples: int32")
    .Input("seed: Tseed")
    .Output("output: output_dtype")
    .Attr("T: realnumbertype")
    .Attr("Tseed: {int32, int64} = DT_INT64")
    .Attr("output_dtype: {int32, int64} = DT_INT64")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(CheckSeedShape(c, 2));
      return SampleClassesShape(c);
    })
    .NotDifferentiable("its value is an integer")
    .Doc("Multinomial that draws the same classes whenever the two numbers of `seed` are the same.");

absl::Status ComputeStatelessMultinomial(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Philox start, StreamOfSeed(ctx, 2));
  return SampleClasses(ctx, [&](int64_t, int64_t) -> absl::StatusOr<Philox> { return start; });
}
TROUPE_KERNEL("StatelessMultinomial").Device("CPU").Function<ComputeStatelessMultinomial>();

}  // namespace
}  // namespace troupe::random
