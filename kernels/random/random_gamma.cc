// RandomGamma: samples of gamma distributions; and RandomGammaGrad: how a sample moves with its
// shape parameter.
#include <cmath>

#include "kernels/common/types.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/random/per_parameter.h"
#include "kernels/special/special_functions.h"
#include "troupe/gradient_function.h"

namespace troupe::random {
namespace {

// Marsaglia and Tsang, "A simple method for generating gamma variables": the cube of a shifted
// normal number, some of which are drawn again. Below 1 it is drawn for alpha + 1 and multiplied by
// a power of a uniform number.
double Draw(double alpha, SampleStream& stream) {
  if (alpha == 1) return -std::log1p(-stream.Uniform());
  const bool below_one = alpha < 1;
  const double d = alpha + (below_one ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / std::sqrt(d);
  for (;;) {
    const double x = stream.Normal();
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = stream.Uniform();
    // The first condition, which holds nearly always where the second does, saves two logarithms.
    // Not-a-number ends the loop too.
    const bool refused = u >= 1 - 0.0331 * (x * x) * (x * x) && std::log(u) >= 0.5 * x * x + d * (1 - v + std::log(v));
    if (refused) continue;
    const double sample = d * v;
    return below_one ? sample * std::pow(stream.Uniform(), 1 / alpha) : sample;
  }
}

class RandomGamma {
 public:
  explicit RandomGamma(KernelInit& init) : source_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const PerParameter p, AllocatePerParameter(ctx, &source_));
    if (p.out->num_elements() == 0) return absl::OkStatus();
    VisitNumeric(p.out->dtype(), false, [&]<class T>() {
      if constexpr (!std::is_integral_v<T> && requires(T v) { static_cast<double>(v); }) {
        FillPerParameter<T, T>(ctx, p, [](double alpha, SampleStream& s) { return static_cast<T>(Draw(alpha, s)); });
      }
      return true;
    });
    return absl::OkStatus();
  }

 private:
  RandomSource source_;
};

// Samples follow alpha as if each kept its place in the distribution. Alpha is repeated along the
// dimensions of the shape, which come first.
absl::Status RandomGammaGradient(GradientContext& g) {
  const auto number = [&g](int32_t v) { return g.Const(Tensor::Scalar<int32_t>(v)); };
  const NodeOut alpha = g.Input(1), samples = g.Op("Size", {g.Input(0)});
  const NodeOut ones = g.Op("Fill", {g.Op("ExpandDims", {samples, number(0)}), number(1)});
  const NodeOut shape =
      g.Op("ConcatV2", {GradArg(std::vector<NodeOut>{ones, g.Op("Shape", {alpha})}), GradArg(number(0))},
           {{"N", int64_t{2}}});
  const NodeOut moves = g.Op("RandomGammaGrad", {g.Op("Reshape", {alpha, shape}), g.Output(0)});
  g.Set(1, g.Op("Sum", {g.Op("Mul", {g.Grad(0), moves}), g.Op("Range", {number(0), samples, number(1)})}));
  return g.status();
}

TROUPE_OP("RandomGamma")
    .Input("shape: S")
    .Input("alpha: T")
    .Output("output: T")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .Attr("S: {int32, int64}")
    .Attr("T: {half, float, double}")
    .Stateful()
    .Shape(PerParameterShape)
    .Gradient(RandomGammaGradient)
    .Doc(
        "For each element of `alpha` samples of the gamma distribution with that shape and scale 1: output [shape..., "
        "alpha's\n"
        "shape...]. Equal seeds give equal sequences; seeds 0, 0 one that differs each time.");

TROUPE_KERNEL("RandomGamma")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .HostMemory("shape")
    .Class<RandomGamma>();

struct SampleGradFn {
  template <class T>
  static T Do(T alpha, T sample) {
    return static_cast<T>(math::GammaSampleGrad(alpha, sample));
  }
};
const math::BinaryTable& RandomGammaGradTable() {
  static const math::BinaryTable table = math::Loops<SampleGradFn, float, double>(500);
  return table;
}

TROUPE_OP("RandomGammaGrad")
    .Input("alpha: T")
    .Input("sample: T")
    .Output("output: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc(
        "The derivative of a sample of the gamma distribution with respect to its parameter alpha, with broadcasting: "
        "the sample moves\n"
        "so that as much of the distribution lies below it as before.");

TROUPE_CPU_KERNEL("RandomGammaGrad").Factory(math::BinaryFactory<RandomGammaGradTable>);

}  // namespace
}  // namespace troupe::random
