// DepthwiseConv2dNativeBackpropInput: the gradient of DepthwiseConv2dNative with respect to its
// input.
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

absl::Status Gradient(GradientContext& g) {
  // Linear in out_backprop (whose gradient is a forward convolution) and in the filter.
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut f = g.Input(1), y = g.Input(2), d = g.Grad(0);
  g.Set(1,
        g.Op("DepthwiseConv2dNativeBackpropFilter", {d, g.Op("Shape", {f}, {{"out_type", DType::kInt32}}), y}, attrs));
  g.Set(2, g.Op("DepthwiseConv2dNative", {d, f}, attrs));
  return g.status();
}

TROUPE_OP("DepthwiseConv2dNativeBackpropInput")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("strides: list(int)")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Shape(ConvBackpropInputShape)
    .Gradient(Gradient)
    .Doc(
        "The gradient of DepthwiseConv2dNative with respect to its input, whose shape is input_sizes, for the gradient "
        "out_backprop of its output.");

TROUPE_KERNEL("DepthwiseConv2dNativeBackpropInput")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .HostMemory("input_sizes")
    .Class<ConvKernelOf<ConvPass::kBackwardInput, true>>();

}  // namespace
}  // namespace troupe
