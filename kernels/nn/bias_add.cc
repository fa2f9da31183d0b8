// BiasAdd: a vector added along the channels of a tensor; BiasAddV1, as it was before data formats;
// BiasAddGrad, the gradient with respect to the bias.
#include "kernels/common/as_float.h"
#include "kernels/common/types.h"
#include "kernels/nn/bias.h"
#include "kernels/nn/layout.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status BiasAddShape(InferenceContext& c, bool channels_first) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape value, c.WithRankAtLeast(0, channels_first ? 3 : 2));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape bias, c.WithRank(1, 1));
  if (value.known_rank()) {
    const int at = channels_first ? 1 : value.rank() - 1;
    absl::StatusOr<int64_t> channels = MergeDims(value.dim(at), bias.dim(0));
    if (!channels.ok()) {
      return InvalidArgument("the bias ", bias.DebugString(), " must have one element for each of the ", value.dim(at),
                             " channels of the value ", value.DebugString());
    }
    value.set_dim(at, *channels);
  }
  c.set_output(0, value);
  return absl::OkStatus();
}

// BiasAdd and BiasAddV1.
class AddBiasKernel {
 public:
  AddBiasKernel(KernelInit& init, bool channels_first) : dtype_(init.input_type(0)), channels_first_(channels_first) {}
  absl::Status Compute(KernelContext& ctx);

 private:
  const DType dtype_;
  const bool channels_first_;
};

absl::Status AddBiasKernel::Compute(KernelContext& ctx) {
  const Tensor &value = ctx.input(0), &bias = ctx.input(1);
  if (value.rank() < 2)
    return InvalidArgument("the value must have rank 2 or more, but its shape is ", value.shape().DebugString());
  if (bias.rank() != 1) return InvalidArgument("Biases must be 1D: ", bias.shape().DebugString());
  const ChannelView view = ViewChannels(value, channels_first_);
  if (bias.dim(0) != view.channels) {
    return InvalidArgument("Must provide as many biases as the channel dimension of the input tensor: ",
                           bias.shape().DebugString(), " vs. ", view.channels, " in ", value.shape().DebugString());
  }
  if (IsSmallFloat(dtype_)) {
    Tensor x = Widened(ctx, value);
    AddBias(ctx.threads(), DType::kFloat, view, x.raw(), Widened(ctx, bias).raw(), x.raw());
    ctx.set_output(0, Narrowed(ctx, std::move(x), dtype_));
    return absl::OkStatus();
  }
  const void* x = value.raw();
  const TensorShape shape = value.shape();
  TROUPE_ASSIGN_OR_RETURN(Tensor * y, ctx.ForwardOrAllocate({0}, 0, shape));
  AddBias(ctx.threads(), dtype_, view, x, ctx.input(1).raw(), y->raw());
  return absl::OkStatus();
}

TROUPE_OP("BiasAdd")
    .Input("value: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape([](InferenceContext& c) { return BiasAddShape(c, ChannelsFirst(c.node())); })
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(0));
      g.Set(1, g.Op("BiasAddGrad", {g.Grad(0)}, {{"data_format", g.Attr<std::string>("data_format")}}));
      return g.status();
    })
    .Doc(
        "Adds the vector bias to value along its channels: the last dimension, or dimension 1 where data_format is "
        "NCHW.");

struct BiasAddKernel : AddBiasKernel {
  explicit BiasAddKernel(KernelInit& init) : AddBiasKernel(init, ChannelsFirst(init.node())) {}
};
TROUPE_KERNEL("BiasAdd").Device("CPU").Types("T", kNumbers).Class<BiasAddKernel>();

TROUPE_OP("BiasAddV1")
    .Input("value: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr("T: numbertype")
    .Shape([](InferenceContext& c) { return BiasAddShape(c, false); })
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(0));
      g.Set(1, g.Op("BiasAddGrad", {g.Grad(0)}));
      return g.status();
    })
    .Doc("Adds the vector bias to value along its last dimension.");

struct BiasAddV1Kernel : AddBiasKernel {
  explicit BiasAddV1Kernel(KernelInit& init) : AddBiasKernel(init, false) {}
};
TROUPE_KERNEL("BiasAddV1").Device("CPU").Types("T", kNumbers).Class<BiasAddV1Kernel>();

absl::Status BiasAddGradShape(InferenceContext& c) {
  const bool first = ChannelsFirst(c.node());
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape d, c.WithRankAtLeast(0, first ? 3 : 2));
  c.set_output(0, {d.known_rank() ? d.dim(first ? 1 : d.rank() - 1) : -1});
  return absl::OkStatus();
}

// The gradient of a sum: every element of the input gets what its channel's sum got, which BiasAdd
// onto zeros spreads.
absl::Status BiasAddGradGradient(GradientContext& g) {
  const NodeOut zeros = g.Op("ZerosLike", {g.Input(0)});
  g.Set(0, g.Op("BiasAdd", {zeros, g.Grad(0)}, {{"data_format", g.Attr<std::string>("data_format")}}));
  return g.status();
}

TROUPE_OP("BiasAddGrad")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: numbertype")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Shape(BiasAddGradShape)
    .Gradient(BiasAddGradGradient)
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

TROUPE_KERNEL("BiasAddGrad").Device("CPU").Types("T", kNumbers).Class<BiasAddGradKernel>();

}  // namespace
}  // namespace troupe
