// DepthwiseConv2dNative: each channel of images convolved with filters of its own.
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

absl::Status Gradient(GradientContext& g) {
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut x = g.Input(0), f = g.Input(1), d = g.Grad(0);
  g.Set(0,
        g.Op("DepthwiseConv2dNativeBackpropInput", {g.Op("Shape", {x}, {{"out_type", DType::kInt32}}), f, d}, attrs));
  g.Set(1,
        g.Op("DepthwiseConv2dNativeBackpropFilter", {x, g.Op("Shape", {f}, {{"out_type", DType::kInt32}}), d}, attrs));
  return g.status();
}

TROUPE_OP("DepthwiseConv2dNative")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("strides: list(int)")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Shape([](InferenceContext& c) { return ConvOutputShape(c, true); })
    .Gradient(Gradient)
    .Doc(
        "Convolves each channel of input with the channel_multiplier filters that filter [height, width, channels, "
        "channel_multiplier] has for it.");

TROUPE_KERNEL("DepthwiseConv2dNative")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Class<ConvKernelOf<ConvPass::kForward, true>>();

}  // namespace
}  // namespace troupe
