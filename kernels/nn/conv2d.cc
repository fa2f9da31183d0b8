// Conv2D and its gradients with respect to input and filter.
#include "kernels/common/types.h"
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

absl::Status Conv2dGradient(GradientContext& g) {
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut x = g.Input(0), f = g.Input(1), d = g.Grad(0);
  g.Set(0, g.Op("Conv2DBackpropInput", {g.Op("Shape", {x}, {{"out_type", DType::kInt32}}), f, d}, attrs));
  g.Set(1, g.Op("Conv2DBackpropFilter", {x, g.Op("Shape", {f}, {{"out_type", DType::kInt32}}), d}, attrs));
  return g.status();
}

const OpRegistrar conv2d =
    ConvOp("Conv2D", {"input: T", "filter: T"}, /*depthwise=*/false, "{half, bfloat16, float, double, int32}")
        .Shape([](InferenceContext& c) { return ConvOutputShape(c, false); })
        .Gradient(Conv2dGradient)
        .Doc(
            "Convolves input with filter [height, width, channels, outputs]. Where filter has a fraction of the "
            "input's channels, both are cut into groups.");

TROUPE_CPU_KERNEL("Conv2D").Class<ConvKernelOf<ConvPass::kForward, false>>();

absl::Status Conv2dBackpropInputGradient(GradientContext& g) {
  // Linear in out_backprop (whose gradient is a forward convolution) and in the filter.
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut f = g.Input(1), y = g.Input(2), d = g.Grad(0);
  g.Set(1, g.Op("Conv2DBackpropFilter", {d, g.Op("Shape", {f}, {{"out_type", DType::kInt32}}), y}, attrs));
  g.Set(2, g.Op("Conv2D", {d, f}, attrs));
  return g.status();
}

const OpRegistrar conv2d_backprop_input =
    ConvOp("Conv2DBackpropInput", {"input_sizes: int32", "filter: T", "out_backprop: T"}, /*depthwise=*/false,
           "{half, bfloat16, float, double, int32}")
        .Shape(ConvBackpropInputShape)
        .Gradient(Conv2dBackpropInputGradient)
        .Doc(
            "The gradient of Conv2D with respect to its input, whose shape is input_sizes, for the gradient "
            "out_backprop of its output.");

TROUPE_CPU_KERNEL("Conv2DBackpropInput")
    .HostMemory("input_sizes")
    .Class<ConvKernelOf<ConvPass::kBackwardInput, false>>();

absl::Status Conv2dBackpropFilterGradient(GradientContext& g) {
  // Linear in the input and in out_backprop; the arriving gradient plays the filter.
  const AttrMap attrs = ConvAttrs(g);
  const NodeOut x = g.Input(0), y = g.Input(2), d = g.Grad(0);
  g.Set(0, g.Op("Conv2DBackpropInput", {g.Op("Shape", {x}, {{"out_type", DType::kInt32}}), d, y}, attrs));
  g.Set(2, g.Op("Conv2D", {x, d}, attrs));
  return g.status();
}

const OpRegistrar conv2d_backprop_filter =
    ConvOp("Conv2DBackpropFilter", {"input: T", "filter_sizes: int32", "out_backprop: T"})
        .Shape(ConvBackpropFilterShape)
        .Gradient(Conv2dBackpropFilterGradient)
        .Doc(
            "The gradient of Conv2D with respect to its filter, whose shape is filter_sizes, for the gradient "
            "out_backprop of its output.");

TROUPE_CPU_KERNEL("Conv2DBackpropFilter")
    .HostMemory("filter_sizes")
    .Class<ConvKernelOf<ConvPass::kBackwardFilter, false>>();

}  // namespace
}  // namespace troupe
