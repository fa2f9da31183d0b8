// LRN: local response normalisation.
#include "kernels/nn/lrn.h"

#include <algorithm>
#include <cmath>

#include "kernels/common/as_float.h"
#include "troupe/gradient_function.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {

LrnAttrs::LrnAttrs(KernelInit& init)
    : radius(init.Attr<int64_t>("depth_radius")),
      bias(init.Attr<float>("bias")),
      alpha(init.Attr<float>("alpha")),
      beta(init.Attr<float>("beta")) {
  if (radius < 0 || radius > INT32_MAX)
    init.Fail(InvalidArgument("depth_radius = ", radius, " must be between 0 and 2147483647"));
}

void LrnAttrs::Sums(const float* in, int64_t depth, float* sums) const {
  for (int64_t d = 0; d < depth; ++d) {
    float sum = 0;
    for (int64_t k = std::max<int64_t>(0, d - radius), end = std::min(depth, d + radius + 1); k < end; ++k)
      sum += in[k] * in[k];
    sums[d] = bias + alpha * sum;
  }
}

namespace {

// sum^-beta; the two powers that networks use have instructions of their own.
float InversePower(float sum, float beta) {
  if (beta == 0.5f) return 1 / std::sqrt(sum);
  if (beta == 1.0f) return 1 / sum;
  return std::pow(sum, -beta);
}

class Lrn {
 public:
  explicit Lrn(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 4)
      return InvalidArgument("in must be 4-dimensional, got shape ", ctx.input(0).shape().DebugString());
    const Tensor in = Widened(ctx, ctx.input(0));
    TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(DType::kFloat, in.shape()));
    const int64_t depth = in.dim(3), rows = depth == 0 ? 0 : in.num_elements() / depth;
    const double window = static_cast<double>(std::min(depth, 2 * attrs_.radius + 1));
    ctx.threads()->ParallelFor(rows, static_cast<double>(depth) * (20 + window), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* from = in.data<float>() + row * depth;
        float* const to = out.data<float>() + row * depth;
        attrs_.Sums(from, depth, to);
        for (int64_t d = 0; d < depth; ++d) to[d] = from[d] * InversePower(to[d], attrs_.beta);
      }
    });
    ctx.set_output(0, Narrowed(ctx, std::move(out), ctx.output_type(0)));
    return absl::OkStatus();
  }

 private:
  const LrnAttrs attrs_;
};

absl::Status Gradient(GradientContext& g) {
  AttrMap attrs = {{"depth_radius", g.Attr<int64_t>("depth_radius")}};
  for (const char* name : {"bias", "alpha", "beta"}) attrs.Set(name, g.Attr<float>(name));
  g.Set(0, g.Op("LRNGrad", {g.Grad(0), g.Input(0), g.Output(0)}, std::move(attrs)));
  return g.status();
}

TROUPE_OP("LRN")
    .Input("input: T")
    .Output("output: T")
    .Attr("depth_radius: int = 5")
    .Attr("bias: float = 1.0")
    .Attr("alpha: float = 1.0")
    .Attr("beta: float = 0.5")
    .Attr("T: {half, bfloat16, float} = DT_FLOAT")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, c.WithRank(0, 4));
      c.set_output(0, std::move(shape));
      return absl::OkStatus();
    })
    .Gradient(Gradient)
    .Doc(
        "Local response normalisation in the last of four dimensions: input / (bias + alpha * s)^beta, with s the sum "
        "of the squares of\n"
        "the elements that are at most depth_radius away.");
TROUPE_KERNEL("LRN").Device("CPU").Type<Half, BFloat16, float>("T").Class<Lrn>();

}  // namespace
}  // namespace troupe
