// DepthwiseConv2dNativeBackpropFilter: the gradient of DepthwiseConv2dNative with respect to its
// filter.
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

absl::Status Gradient(GradientContext& g) {
  // Linear in the input and in out_backprop; the arriving gradient plays the filter.
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut x = g.Input(0), y = g.Input(2), d = g.Grad(0);
  g.Set(0,
        g.Op("DepthwiseConv2dNativeBackpropInput", {g.Op("Shape", {x}, {{"out_type", DType::kInt32}}), d, y}, attrs));
  g.Set(2, g.Op("DepthwiseConv2dNative", {x, d}, attrs));
  return g.status();
}

TROUPE_OP("DepthwiseConv2dNativeBackpropFilter")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("strides: list(int)")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Shape(ConvBackpropFilterShape)
    .Gradient(Gradient)
    .Doc(
        "The gradient of DepthwiseConv2dNative with respect to its filter, whose shape is filter_sizes, for the "
        "gradient out_backprop of its output.");

TROUPE_KERNEL("DepthwiseConv2dNativeBackpropFilter")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .HostMemory("filter_sizes")
    .Class<ConvKernelOf<ConvPass::kBackwardFilter, true>>();

}  // namespace
}  // namespace troupe
