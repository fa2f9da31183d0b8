// RandomPoisson and RandomPoissonV2: samples of Poisson distributions.
#include <cmath>
#include <limits>

#include "kernels/random/per_parameter.h"
#include "kernels/random/random_kernel.h"

namespace troupe::random {
namespace {

// Input 0 is the shape, input 1 the rates.
class RandomPoissonKernel {
 public:
  explicit RandomPoissonKernel(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx);

 private:
  RandomSource source_;
};

// Knuth: as many uniform numbers as their product stays above e^-rate.
double DrawFew(double rate, double highest, SampleStream& stream) {
  const double least = std::exp(-rate);
  double product = 1;
  for (double k = 0;; k += 1) {
    product *= stream.Uniform();
    if (product <= least && k <= highest) return k;
  }
}

// Hoermann, "The transformed rejection method for generating Poisson random variables": a uniform
// number through a function that is close to the inverse of the distribution, some of which are
// drawn again. The constants are that paper's.
double DrawMany(double rate, double highest, SampleStream& stream) {
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b,
               inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  for (;;) {
    const double u = stream.Uniform() - 0.5, v = stream.Uniform();
    const double inside = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / inside + b) * u + rate + 0.43);
    if (k > highest) continue;
    if (inside >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (inside < 0.013 && v > inside)) continue;
    int sign;
    const double s = std::log(v * inverse_alpha / (a / (inside * inside) + b)),
                 t = -rate + k * log_rate - lgamma_r(k + 1, &sign);
    if (s <= t) return k;
  }
}

// The highest number of an output type.
template <class U>
double Highest() {
  if constexpr (std::is_same_v<U, Half>) {
    return 65504;
  } else {
    return static_cast<double>(std::numeric_limits<U>::max());
  }
}

template <class R, class U>
void FillPoisson(KernelContext& ctx, const PerParameter& p) {
  FillPerParameter<R, U>(ctx, p, [](double rate, SampleStream& stream) {
    if (!std::isfinite(rate) || rate < 0) {
      if constexpr (std::is_integral_v<U>) {
        return U(0);
      } else {
        return static_cast<U>(std::numeric_limits<float>::quiet_NaN());
      }
    }
    return static_cast<U>(rate < 10 ? DrawFew(rate, Highest<U>(), stream) : DrawMany(rate, Highest<U>(), stream));
  });
}

// Calls f with the C++ type of a dtype that rates and counts may have.
template <class F>
void VisitCount(DType t, F&& f) {
  switch (t) {
    case DType::kHalf:
      return f.template operator()<Half>();
    case DType::kFloat:
      return f.template operator()<float>();
    case DType::kDouble:
      return f.template operator()<double>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    default:
      return f.template operator()<int64_t>();
  }
}

absl::Status RandomPoissonKernel::Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const PerParameter p, AllocatePerParameter(ctx, &source_));
  if (p.out->num_elements() == 0) return absl::OkStatus();
  VisitCount(ctx.input(1).dtype(),
             [&]<class R>() { VisitCount(p.out->dtype(), [&]<class U>() { FillPoisson<R, U>(ctx, p); }); });
  return absl::OkStatus();
}

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
    .Shape(PerParameterShape)
    .NotDifferentiable("counts do not follow their rates continuously")
    .Doc(
        "For each element of `rate` samples of the Poisson distribution with that mean: output [shape..., rate's "
        "shape...]. Equal seeds\n"
        "give equal sequences; seeds 0, 0 one that differs each time.");

TROUPE_KERNEL("RandomPoisson")
    .Device("CPU")
    .Type<Half, float, double>("dtype")
    .HostMemory("shape")
    .Class<RandomPoissonKernel>();

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

    .Shape(PerParameterShape)
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
    .Class<RandomPoissonKernel>();

}  // namespace
}  // namespace troupe::random
