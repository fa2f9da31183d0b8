// Conv2D: images convolved with a filter, in two dimensions.
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

absl::Status Gradient(GradientContext& g) {
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut x = g.Input(0), f = g.Input(1), d = g.Grad(0);
  g.Set(0, g.Op("Conv2DBackpropInput", {g.Op("Shape", {x}, {{"out_type", DType::kInt32}}), f, d}, attrs));
  g.Set(1, g.Op("Conv2DBackpropFilter", {x, g.Op("Shape", {f}, {{"out_type", DType::kInt32}}), d}, attrs));
  return g.status();
}

TROUPE_OP("Conv2D")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double, int32}")
    .Attr("strides: list(int)")
    .Attr("use_cudnn_on_gpu: bool = true")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Shape([](InferenceContext& c) { return ConvOutputShape(c, false); })
    .Gradient(Gradient)
    .Doc(
        "Convolves input with filter [height, width, channels, outputs]. Where filter has a fraction of the input's "
        "channels, both are cut into groups.");

TROUPE_KERNEL("Conv2D")
    .Device("CPU")
    .Type<Half, BFloat16, float, double, int32_t>("T")
    .Class<ConvKernelOf<ConvPass::kForward, false>>();

}  // namespace
}  // namespace troupe
