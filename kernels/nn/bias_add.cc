// BiasAdd: a vector added along the channels of a tensor.
#include "kernels/nn/bias_add.h"

#include "kernels/common/as_float.h"
#include "kernels/nn/bias.h"
#include "troupe/gradient_function.h"
#include "troupe/op_def.h"

namespace troupe {

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

absl::Status BiasAddKernel::Compute(KernelContext& ctx) {
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

namespace {

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

struct Kernel : BiasAddKernel {
  explicit Kernel(KernelInit& init) : BiasAddKernel(init, ChannelsFirst(init.node())) {}
};
TROUPE_KERNEL("BiasAdd")
    .Device("CPU")
    .Type<float, double, int32_t, uint8_t, int16_t, int8_t, std::complex<float>, int64_t, BFloat16, uint16_t,
          std::complex<double>, Half, uint32_t, uint64_t>("T")
    .Class<Kernel>();

}  // namespace
}  // namespace troupe
