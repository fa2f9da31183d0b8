// Local response normalisation: each element divided by a power of the squares of its neighbours in
// the innermost dimension.
//
//   sums[d]   = bias + alpha * (input[d - depth_radius]^2 + ... + input[d + depth_radius]^2)
//   output[d] = input[d] * sums[d]^-beta
//
// What lies outside does not count.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/types.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

struct LrnAttrs {
  explicit LrnAttrs(KernelInit& init);
  int64_t radius;
  float bias, alpha, beta;
  // The sums of a row of `depth` elements.
  void Sums(const float* in, int64_t depth, float* sums) const;
};

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

absl::Status LrnGradient(GradientContext& g) {
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
    .Gradient(LrnGradient)
    .Doc(
        "Local response normalisation in the last of four dimensions: input / (bias + alpha * s)^beta, with s the sum "
        "of the squares of\n"
        "the elements that are at most depth_radius away.");
TROUPE_CPU_KERNEL("LRN").Class<Lrn>();

class LrnGrad {
 public:
  explicit LrnGrad(KernelInit& init) : attrs_(init) {}
  absl::Status Compute(KernelContext& ctx) {
    for (int i = 0; i < 3; ++i) {
      const TensorShape shape = ctx.input(i).shape();
      if (shape.rank() != 4) return InvalidArgument("inputs must be 4-dimensional, got shape ", shape.DebugString());
      if (!ctx.input(i).SameShape(ctx.input(0))) {
        return InvalidArgument("input_grads, input_image, and out_image should have the same shape: ",
                               ctx.input(0).shape().DebugString(), " vs. ", shape.DebugString());
      }
    }
    const Tensor grads = Widened(ctx, ctx.input(0)), in = Widened(ctx, ctx.input(1)), out = Widened(ctx, ctx.input(2));
    TROUPE_ASSIGN_OR_RETURN(Tensor result, ctx.AllocateTemp(DType::kFloat, in.shape()));
    const int64_t depth = in.dim(3), rows = depth == 0 ? 0 : in.num_elements() / depth;
    const double window = static_cast<double>(std::min(depth, 2 * attrs_.radius + 1));
    ctx.threads()->ParallelFor(rows, static_cast<double>(depth) * (30 + 2 * window), [&](int64_t begin, int64_t end) {
      std::vector<float> sums(depth), shares(depth);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * depth;
        Row(grads.data<float>() + at, in.data<float>() + at, out.data<float>() + at, depth, sums.data(), shares.data(),
            result.data<float>() + at);
      }
    });
    ctx.set_output(0, Narrowed(ctx, std::move(result), ctx.output_type(0)));
    return absl::OkStatus();
  }

 private:
  // Output j depends on input d by its own factor (j = d) and, where they are near, through its
  // sum: -2 alpha beta in[d] out[j] / sums[j].
  void Row(const float* grads, const float* in, const float* out, int64_t depth, float* sums, float* shares,
           float* result) const {
    attrs_.Sums(in, depth, sums);
    const float factor = -2 * attrs_.alpha * attrs_.beta;
    for (int64_t j = 0; j < depth; ++j) shares[j] = factor * grads[j] * out[j] / sums[j];
    for (int64_t d = 0; d < depth; ++d) {
      float through = 0;
      for (int64_t j = std::max<int64_t>(0, d - attrs_.radius), end = std::min(depth, d + attrs_.radius + 1); j < end;
           ++j)
        through += shares[j];
      result[d] = grads[d] * std::pow(sums[d], -attrs_.beta) + through * in[d];
    }
  }

  const LrnAttrs attrs_;
};

TROUPE_OP("LRNGrad")
    .Input("input_grads: T")
    .Input("input_image: T")
    .Input("output_image: T")
    .Output("output: T")
    .Attr("depth_radius: int = 5")
    .Attr("bias: float = 1.0")
    .Attr("alpha: float = 1.0")
    .Attr("beta: float = 0.5")
    .Attr("T: {half, bfloat16, float} = DT_FLOAT")
    .Shape(shape_fn::MergeAll)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The gradient of LRN's input from that of its output, its input and its output.");
TROUPE_CPU_KERNEL("LRNGrad").Class<LrnGrad>();

}  // namespace
}  // namespace troupe
