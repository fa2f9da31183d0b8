// BiasAddGrad: the gradient of BiasAdd with respect to the bias.
#include "kernels/common/as_float.h"
#include "kernels/nn/bias.h"
#include "kernels/nn/bias_add.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status Shape(InferenceContext& c) {
  const bool first = ChannelsFirst(c.node());
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape d, c.WithRankAtLeast(0, first ? 3 : 2));
  c.set_output(0, {d.known_rank() ? d.dim(first ? 1 : d.rank() - 1) : -1});
  return absl::OkStatus();
}

// The gradient of a sum: every element of the input gets what its channel's sum got, which BiasAdd
// onto zeros spreads.
absl::Status Gradient(GradientContext& g) {
  const NodeOut zeros = g.Op("ZerosLike", {g.Input(0)});
  g.Set(0, g.Op("BiasAdd", {zeros, g.Grad(0)}, {{"data_format", g.Attr<std::string>("data_format")}}));
  return g.status();
}

TROUPE_OP("BiasAddGrad")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "The sum of out_backprop over every dimension but the channels (the last, or dimension 1 where data_format is "
        "NCHW).");

class BiasAddGradKernel {
 public:
  explicit BiasAddGradKernel(KernelInit& init)
      : dtype_(init.input_type(0)), channels_first_(ChannelsFirst(init.node())) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& d = ctx.input(0);
    if (d.rank() < 2)
      return InvalidArgument("out_backprop must have rank 2 or more, but its shape is ", d.shape().DebugString());
    const ChannelView view = ViewChannels(d, channels_first_);
    const TensorShape shape({view.channels});
    if (IsSmallFloat(dtype_)) {
      TROUPE_ASSIGN_OR_RETURN(Tensor sums, ctx.AllocateTemp(DType::kFloat, shape));
      SumChannels(ctx.threads(), DType::kFloat, view, Widened(ctx, d).raw(), sums.raw());
      ctx.set_output(0, Narrowed(ctx, std::move(sums), dtype_));
      return absl::OkStatus();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * sums, ctx.AllocateOutput(0, shape));
    SumChannels(ctx.threads(), dtype_, view, d.raw(), sums->raw());
    return absl::OkStatus();
  }

 private:
  const DType dtype_;
  const bool channels_first_;
};

TROUPE_KERNEL("BiasAddGrad")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, std::complex<float>, int64_t, BFloat16, uint16_t,
          std::complex<double>, Half, uint32_t, uint64_t>("T")
    .Class<BiasAddGradKernel>();

}  // namespace
}  // namespace troupe
