// Local response normalisation: each element divided by a power of the squares of its neighbours in
// the innermost dimension.
//
//   sums[d]   = bias + alpha * (input[d - depth_radius]^2 + ... + input[d + depth_radius]^2)
//   output[d] = input[d] * sums[d]^-beta
//
// What lies outside does not count.
#include <algorithm>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/isa.h"
#include "kernels/common/types.h"
#include "kernels/nn/lrn_loops.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

TROUPE_ISA_TABLE(LrnTable, kLrn, PickLrn)

namespace troupe {
namespace {

struct LrnAttrs {
  explicit LrnAttrs(KernelInit& init);
  // Windows are no wider than a row.
  int64_t RadiusIn(int64_t depth) const { return std::min(radius, depth); }
  // What an element costs, in multiplications.
  double Cost(int64_t depth) const {
    const bool roots = beta == 0.5f || beta == 0.75f || beta == 1.0f;
    return (roots ? 4 : 20) + 0.25 * static_cast<double>(2 * RadiusIn(depth) + 1);
  }
  int64_t radius;
  float bias, alpha, beta;
};

LrnAttrs::LrnAttrs(KernelInit& init)
    : radius(init.Attr<int64_t>("depth_radius")),
      bias(init.Attr<float>("bias")),
      alpha(init.Attr<float>("alpha")),
      beta(init.Attr<float>("beta")) {
  if (radius < 0 || radius > INT32_MAX)
    init.Fail(InvalidArgument("depth_radius = ", radius, " must be between 0 and 2147483647"));
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
    const int64_t radius = attrs_.RadiusIn(depth);
    ctx.threads()->ParallelFor(rows, static_cast<double>(depth) * attrs_.Cost(depth), [&](int64_t begin, int64_t end) {
      const LrnTable& loops = PickLrn();
      std::vector<float> squares(depth + 2 * radius);
      for (int64_t row = begin; row < end; ++row) {
        const float* from = in.data<float>() + row * depth;
        float* const to = out.data<float>() + row * depth;
        loops.sums(from, radius, attrs_.bias, attrs_.alpha, squares.data(), to, depth);
        loops.scale(from, to, attrs_.beta, to, depth);
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
    const double cost = static_cast<double>(depth) * (10 + 2 * attrs_.Cost(depth));
    ctx.threads()->ParallelFor(rows, cost, [&](int64_t begin, int64_t end) {
      Scratch scratch(depth, attrs_.RadiusIn(depth));
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * depth;
        Row(grads.data<float>() + at, in.data<float>() + at, out.data<float>() + at, depth, &scratch,
            result.data<float>() + at);
      }
    });
    ctx.set_output(0, Narrowed(ctx, std::move(result), ctx.output_type(0)));
    return absl::OkStatus();
  }

 private:
  // Of a row; the first and the last `radius` of `padded` stay 0.
  struct Scratch {
    Scratch(int64_t depth, int64_t radius) : padded(depth + 2 * radius), sums(depth), through(depth), radius(radius) {}
    std::vector<float> padded, sums, through;
    int64_t radius;
  };
  // Output j depends on input d by its own factor (j = d) and, where they are near, through its
  // sum: -2 alpha beta in[d] out[j] / sums[j].
  void Row(const float* grads, const float* in, const float* out, int64_t depth, Scratch* scratch,
           float* result) const {
    const LrnTable& loops = PickLrn();
    float *const sums = scratch->sums.data(), *const through = scratch->through.data(),
                 *const shares = scratch->padded.data() + scratch->radius;
    loops.sums(in, scratch->radius, attrs_.bias, attrs_.alpha, scratch->padded.data(), sums, depth);
    const float factor = -2 * attrs_.alpha * attrs_.beta;
    for (int64_t j = 0; j < depth; ++j) shares[j] = factor * grads[j] * out[j] / sums[j];
    loops.windows(scratch->padded.data(), scratch->radius, through, depth);
    loops.scale(grads, sums, attrs_.beta, result, depth);
    for (int64_t d = 0; d < depth; ++d) result[d] += through[d] * in[d];
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
