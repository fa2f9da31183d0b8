// Candidate samplers: classes drawn for sampled losses, with the number of times that each of them,
// and each true class, is expected among the draws. Streams and numbers are TensorFlow's.
//
// With `unique`, classes are drawn until `num_sampled` different ones are there. A class with
// probability p is then expected 1 - (1 - p)^tries times, else p * num_sampled times.
#include <cmath>
#include <unordered_set>

#include "kernels/random/distributions.h"
#include "kernels/random/random_kernel.h"

namespace troupe::random {
namespace {

absl::Status SamplerShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t num_true, c.Attr<int64_t>("num_true"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t num_sampled, c.Attr<int64_t>("num_sampled"));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape true_classes, c.WithRank(0, 2));
  c.set_output(0, PartialTensorShape({num_sampled}));
  c.set_output(1, PartialTensorShape({true_classes.dim(0), num_true}));
  c.set_output(2, PartialTensorShape({num_sampled}));
  return absl::OkStatus();
}

OpBuilder SamplerOp(std::string_view name, std::string_view what) {
  return OpBuilder(name)
      .Input("true_classes: int64")
      .Output("sampled_candidates: int64")
      .Output("true_expected_count: float")
      .Output("sampled_expected_count: float")
      .Attr("num_true: int >= 1")
      .Attr("num_sampled: int >= 1")
      .Attr("unique: bool")
      .Attr("range_max: int >= 1")
      .Attr("seed: int = 0")
      .Attr("seed2: int = 0")
      .Stateful()
      .Shape(SamplerShape)
      .NotDifferentiable(kWhyNoGradient)
      .Doc(StrCat("`num_sampled` classes of [0, range_max) drawn ", what,
                  ", each at most once with `unique`; how often each true class [batch, num_true] and each class that "
                  "was drawn is expected among the draws."));
}

// Integers in [0, n), each with the same probability.
uint64_t ExactUniform(PhiloxWords& words, uint64_t n) {
  const auto next = [&] {
    const uint64_t low = words();
    return low | static_cast<uint64_t>(words()) << 32;
  };
  if ((n & (n - 1)) == 0) return next() & (n - 1);
  const uint64_t skewed = ~uint64_t{0} % n + 1;
  uint64_t r = next();
  while (r < skewed) r = next();
  return r % n;
}

struct UniformClasses {
  explicit UniformClasses(int64_t range) : range(range), probability(1.0f / static_cast<float>(range)) {}
  int64_t Draw(PhiloxWords& words) const {
    return static_cast<int64_t>(ExactUniform(words, static_cast<uint64_t>(range)));
  }
  float Probability(int64_t) const { return probability; }
  const int64_t range;
  const float probability;
};

// P(class) = (log(class + 2) - log(class + 1)) / log(range + 1)
struct LogUniformClasses {
  explicit LogUniformClasses(int64_t range) : range(range), log_range(std::log1p(static_cast<double>(range))) {}
  int64_t Draw(PhiloxWords& words) const {
    const uint32_t x0 = words(), x1 = words();
    // Rounding may lead one beyond the range.
    return (static_cast<int64_t>(std::exp(UniformDouble(x0, x1) * log_range)) - 1) % range;
  }
  float Probability(int64_t c) const {
    const auto at = static_cast<double>(c);
    return static_cast<float>(std::log((at + 2.0) / (at + 1.0)) / log_range);
  }
  const int64_t range;
  const double log_range;
};

float Expected(float p, int64_t wanted, int64_t tries) {
  if (tries == wanted) return p * static_cast<float>(wanted);
  return static_cast<float>(-std::expm1(static_cast<double>(tries) * std::log1p(-static_cast<double>(p))));
}

template <class Classes>
class SamplerKernel {
 public:
  explicit SamplerKernel(KernelInit& init)
      : source_(init),
        num_true_(init.Attr<int64_t>("num_true")),
        num_sampled_(init.Attr<int64_t>("num_sampled")),
        unique_(init.Attr<bool>("unique")),
        classes_(init.Attr<int64_t>("range_max")) {
    if (unique_ && num_sampled_ > classes_.range) {
      init.Fail(InvalidArgument("num_sampled is ", num_sampled_, ", but there are only ", classes_.range,
                                " different classes to draw"));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& known = ctx.input(0);
    if (known.rank() != 2 || known.dim(1) != num_true_) {
      return InvalidArgument("true_classes must be a matrix with ", num_true_, " columns, but have shape ",
                             known.shape().DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor* const drawn, ctx.AllocateOutput(0, TensorShape({num_sampled_})));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const expected_true, ctx.AllocateOutput(1, known.shape()));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const expected, ctx.AllocateOutput(2, TensorShape({num_sampled_})));
    // 2048 words for each draw.
    TROUPE_ASSIGN_OR_RETURN(const Philox start, source_.Reserve(ctx, static_cast<uint64_t>(num_sampled_) * 512));
    PhiloxWords words(start);
    int64_t* const out = drawn->data<int64_t>();
    int64_t tries = 0;
    std::unordered_set<int64_t> seen;
    for (int64_t n = 0; n < num_sampled_; ++tries) {
      out[n] = classes_.Draw(words);
      if (!unique_ || seen.insert(out[n]).second) ++n;
      // The last few of many classes may take long.
      if ((tries & 0xffff) == 0xffff && ctx.cancelled()) return Cancelled("drawing classes was cancelled");
    }
    const auto count = [&](int64_t c) { return Expected(classes_.Probability(c), num_sampled_, tries); };
    for (int64_t i = 0; i < num_sampled_; ++i) expected->data<float>()[i] = count(out[i]);
    for (int64_t i = 0; i < known.num_elements(); ++i)
      expected_true->data<float>()[i] = count(known.data<int64_t>()[i]);
    return absl::OkStatus();
  }

 private:
  RandomSource source_;
  const int64_t num_true_, num_sampled_;
  const bool unique_;
  const Classes classes_;
};

const OpRegistrar uniform = SamplerOp("UniformCandidateSampler", "with equal probabilities");
const OpRegistrar log_uniform =
    SamplerOp("LogUniformCandidateSampler",
              "with probabilities (log(class + 2) - log(class + 1)) / log(range_max + 1), as of words by frequency");
TROUPE_KERNEL("UniformCandidateSampler").Device("CPU").Class<SamplerKernel<UniformClasses>>();
TROUPE_KERNEL("LogUniformCandidateSampler").Device("CPU").Class<SamplerKernel<LogUniformClasses>>();

}  // namespace
}  // namespace troupe::random
