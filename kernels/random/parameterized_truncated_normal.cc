// ParameterizedTruncatedNormal: normal numbers between bounds, with a mean, a deviation and bounds
// for each batch.
//
// A batch is what one index of the first dimension holds; when all parameters are scalars, pieces
// of 100 numbers are batches, whatever the shape. Every batch has its own place in the random
// stream, wide enough for kMaxTries tries a number, so that its numbers do not depend on how the
// work is split.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/random/random_kernel.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

using random::Philox;

constexpr int64_t kMaxTries = 1000;
constexpr int64_t kPieces = 100;
// Philox results that `samples` numbers may use.
uint64_t Reserved(int64_t samples) { return static_cast<uint64_t>(2 * kMaxTries * (samples + 3) / 4); }

// A normal distribution between two bounds, turned so that its lower bound is the one that is
// nearer to the mean or finite, with mean 0 and deviation 1.
template <class T>
struct Truncated {
  T mean, deviation, low, high;
};

template <class T>
T Sqrt(T x) {
  return static_cast<T>(std::sqrt(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(x)));
}
template <class T>
T Exp(T x) {
  return static_cast<T>(std::exp(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(x)));
}
template <class T>
T Log(T x) {
  return static_cast<T>(std::log(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(x)));
}

// Writes accepted numbers to [out, end). After kMaxTries refusals the last number is taken as it
// is.
template <class T>
class Sampler {
 public:
  Sampler(const Truncated<T>& d, T* out, T* end) : d_(d), out_(out), end_(end) {}
  void Run(Philox philox) {
    const T root = Sqrt(d_.low * d_.low + T(4));
    const T cutoff = T(2) * Exp(T(0.5) + (d_.low * (d_.low - root)) / T(4)) / (d_.low + root);
    const T range = d_.high - d_.low;
    // A good part of the middle lies inside: plain normal numbers. A narrow range: uniform ones.
    // Else, far from the middle: exponential ones.
    constexpr float kInside = 1.3f;
    if ((d_.low < T(-kInside) && d_.high >= T(0)) || (d_.high > T(kInside) && d_.low <= T(0))) {
      FromNormal(philox);
    } else if (range < cutoff) {
      FromUniform(philox, range);
    } else {
      FromExponential(philox, (d_.low + root) / T(2));
    }
  }

 private:
  static constexpr int kGroup = random::Uniform<T>::kGroup;
  // True when the batch is full.
  bool Offer(T z, bool accept) {
    if (!accept && ++tries_ < kMaxTries) return false;
    *out_++ = z * d_.deviation + d_.mean;
    tries_ = 0;
    return out_ == end_;
  }
  void FromNormal(Philox& philox) {
    for (;;) {
      T z[kGroup];
      random::Normal<T>()(philox, z);
      for (const T v : z) {
        if (Offer(v, v >= d_.low && v <= d_.high)) return;
      }
    }
  }
  void FromUniform(Philox& philox, T range) {
    const T most = d_.low < T(0) ? T(0) : d_.low * d_.low;
    for (;;) {
      T z[kGroup], u[kGroup];
      random::Uniform<T>()(philox, z);
      random::Uniform<T>()(philox, u);
      for (int i = 0; i < kGroup; ++i) {
        z[i] = z[i] * range + d_.low;
        if (Offer(z[i], u[i] <= Exp((most - z[i] * z[i]) / T(2)))) return;
      }
    }
  }
  void FromExponential(Philox& philox, T alpha) {
    for (;;) {
      T r[kGroup];
      random::Uniform<T>()(philox, r);
      for (int i = 0; i < kGroup; i += 2) {
        const T z = -Log(r[i]) / alpha + d_.low, x = d_.low < alpha ? alpha - z : d_.low - alpha;
        if (Offer(z, r[i + 1] <= Exp(-x * x / T(2)) && z < d_.high)) return;
      }
    }
  }

  const Truncated<T> d_;
  T* out_;
  T* const end_;
  int64_t tries_ = 0;
};

class ParameterizedTruncatedNormal {
 public:
  explicit ParameterizedTruncatedNormal(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, random::ShapeInput(ctx, 0));
    if (shape.rank() < 1) return InvalidArgument("Shape tensor must not be empty");
    constexpr const char* kNames[] = {"means", "stdevs", "minvals", "maxvals"};
    bool one = true;
    for (int i = 0; i < 4; ++i) {
      const Tensor& p = ctx.input(1 + i);
      if (p.rank() > 1)
        return InvalidArgument("Input ", kNames[i],
                               " should be a scalar or vector, got shape: ", p.shape().DebugString());
      if (p.num_elements() != 1 && p.num_elements() != shape.dim(0)) {
        return InvalidArgument("Input ", kNames[i],
                               " should have length 1 or shape[0], got shape: ", p.shape().DebugString());
      }
      one = one && p.rank() == 0;
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    const int64_t n = out->num_elements();
    if (n == 0) return absl::OkStatus();
    const int64_t batches = one ? (n + kPieces - 1) / kPieces : shape.dim(0), samples = one ? kPieces : n / batches;
    TROUPE_ASSIGN_OR_RETURN(const Philox start,
                            source_.Reserve(ctx, static_cast<uint64_t>(batches) * Reserved(samples)));
    switch (out->dtype()) {
      case DType::kFloat:
        return Fill<float>(ctx, start, batches, samples, out);
      case DType::kDouble:
        return Fill<double>(ctx, start, batches, samples, out);
      case DType::kHalf:
        return Fill<Half>(ctx, start, batches, samples, out);
      default:
        return Unimplemented("this distribution is not defined for ", Name(out->dtype()));
    }
  }

 private:
  template <class T>
  static absl::StatusOr<Truncated<T>> Parameters(const KernelContext& ctx, int64_t batch) {
    const auto at = [&](int i) { return ctx.input(i).data<T>()[ctx.input(i).num_elements() == 1 ? 0 : batch]; };
    const T mean = at(1);
    T deviation = at(2), low = at(3), high = at(4);
    const bool bounded = std::isfinite(static_cast<double>(low)) || std::isfinite(static_cast<double>(high));
    if (!(deviation > T(0) && low < high && bounded)) return InvalidArgument("Invalid parameters");
    if ((std::isinf(static_cast<double>(low)) && low < T(0)) || high < mean) {
      std::swap(low, high);
      deviation = -deviation;
    }
    return Truncated<T>{mean, deviation, (low - mean) / deviation, (high - mean) / deviation};
  }

  template <class T>
  static absl::Status Fill(KernelContext& ctx, const Philox& start, int64_t batches, int64_t samples, Tensor* out) {
    const int64_t n = out->num_elements();
    std::vector<Truncated<T>> parameters;
    parameters.reserve(batches);
    for (int64_t b = 0; b < batches; ++b) {
      TROUPE_ASSIGN_OR_RETURN(const Truncated<T> d, Parameters<T>(ctx, b));
      parameters.push_back(d);
    }
    ctx.threads()->ParallelFor(batches, 30.0 * static_cast<double>(samples), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        Philox place = start;
        place.Skip(static_cast<uint64_t>(b) * Reserved(samples));
        T* const first = out->data<T>() + b * samples;
        Sampler<T>(parameters[b], first, out->data<T>() + std::min(n, (b + 1) * samples)).Run(place);
      }
    });
    return absl::OkStatus();
  }

  random::RandomSource source_;
};

TROUPE_OP("ParameterizedTruncatedNormal")
    .Input("shape: T")
    .Input("means: dtype")
    .Input("stdevs: dtype")
    .Input("minvals: dtype")
    .Input("maxvals: dtype")
    .Output("output: dtype")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("dtype: {half, bfloat16, float, double}")
    .Attr("T: {int32, int64}")
    .Stateful()
    .Shape(shape_fn::FromShapeInput0)
    .NotDifferentiable(random::kWhyNoGradient)
    .Doc(
        "Normal numbers between minvals and maxvals, one of which must be finite, for each index of the first "
        "dimension with a mean,\n"
        "deviation and bounds of its own where these are vectors. Equal seeds give equal sequences; seeds 0, 0 one "
        "that differs each\n"
        "time. The numbers of the first batch are TensorFlow's; the others depend there on how many threads share the "
        "work.");

TROUPE_KERNEL("ParameterizedTruncatedNormal")
    .Device("CPU")
    .Type<Half, float, double>("dtype")
    .HostMemory("shape")
    .Class<ParameterizedTruncatedNormal>();

}  // namespace
}  // namespace troupe
