// LRNGrad: what flows back through local response normalisation.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/nn/lrn.h"
#include "troupe/gradient_function.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

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
TROUPE_KERNEL("LRNGrad").Device("CPU").Type<Half, BFloat16, float>("T").Class<LrnGrad>();

}  // namespace
}  // namespace troupe
