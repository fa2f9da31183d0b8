// DepthwiseConv2dNative, which convolves each channel of images with filters of its own, and its
// gradients with respect to input and filter.
#include "kernels/common/types.h"
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

absl::Status DepthwiseConv2dNativeGradient(GradientContext& g) {
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut x = g.Input(0), f = g.Input(1), d = g.Grad(0);
  g.Set(0,
        g.Op("DepthwiseConv2dNativeBackpropInput", {g.Op("Shape", {x}, {{"out_type", DType::kInt32}}), f, d}, attrs));
  g.Set(1,
        g.Op("DepthwiseConv2dNativeBackpropFilter", {x, g.Op("Shape", {f}, {{"out_type", DType::kInt32}}), d}, attrs));
  return g.status();
}

const OpRegistrar depthwise_conv2d = ConvOp("DepthwiseConv2dNative", {"input: T", "filter: T"}, /*depthwise=*/true)
                                         .Shape([](InferenceContext& c) { return ConvOutputShape(c, true); })
                                         .Gradient(DepthwiseConv2dNativeGradient)
                                         .Doc(
                                             "Convolves each channel of input with the channel_multiplier filters that "
                                             "filter [height, width, channels, channel_multiplier] has for it.");

TROUPE_CPU_KERNEL("DepthwiseConv2dNative").Class<ConvKernelOf<ConvPass::kForward, true>>();

absl::Status DepthwiseConv2dNativeBackpropInputGradient(GradientContext& g) {
  // Linear in out_backprop (whose gradient is a forward convolution) and in the filter.
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut f = g.Input(1), y = g.Input(2), d = g.Grad(0);
  g.Set(1,
        g.Op("DepthwiseConv2dNativeBackpropFilter", {d, g.Op("Shape", {f}, {{"out_type", DType::kInt32}}), y}, attrs));
  g.Set(2, g.Op("DepthwiseConv2dNative", {d, f}, attrs));
  return g.status();
}

const OpRegistrar depthwise_conv2d_native_backprop_input =
    ConvOp("DepthwiseConv2dNativeBackpropInput", {"input_sizes: int32", "filter: T", "out_backprop: T"},
           /*depthwise=*/true)
        .Shape(ConvBackpropInputShape)
        .Gradient(DepthwiseConv2dNativeBackpropInputGradient)
        .Doc(
            "The gradient of DepthwiseConv2dNative with respect to its input, whose shape is input_sizes, for the "
            "gradient out_backprop of its output.");

TROUPE_CPU_KERNEL("DepthwiseConv2dNativeBackpropInput")
    .HostMemory("input_sizes")
    .Class<ConvKernelOf<ConvPass::kBackwardInput, true>>();

absl::Status DepthwiseConv2dNativeBackpropFilterGradient(GradientContext& g) {
  // Linear in the input and in out_backprop; the arriving gradient plays the filter.
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut x = g.Input(0), y = g.Input(2), d = g.Grad(0);
  g.Set(0,
        g.Op("DepthwiseConv2dNativeBackpropInput", {g.Op("Shape", {x}, {{"out_type", DType::kInt32}}), d, y}, attrs));
  g.Set(2, g.Op("DepthwiseConv2dNative", {x, d}, attrs));
  return g.status();
}

const OpRegistrar depthwise_conv2d_native_backprop_filter =
    ConvOp("DepthwiseConv2dNativeBackpropFilter", {"input: T", "filter_sizes: int32", "out_backprop: T"},
           /*depthwise=*/true)
        .Shape(ConvBackpropFilterShape)
        .Gradient(DepthwiseConv2dNativeBackpropFilterGradient)
        .Doc(
            "The gradient of DepthwiseConv2dNative with respect to its filter, whose shape is filter_sizes, for the "
            "gradient out_backprop of its output.");

TROUPE_CPU_KERNEL("DepthwiseConv2dNativeBackpropFilter")
    .HostMemory("filter_sizes")
    .Class<ConvKernelOf<ConvPass::kBackwardFilter, true>>();

}  // namespace
}  // namespace troupe
