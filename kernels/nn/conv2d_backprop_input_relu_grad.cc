// _Conv2DBackpropInputReluGrad: the gradient of Conv2D's input, and of the Relu that made the
// input, without a pass of its own over the image.
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

TROUPE_OP("_Conv2DBackpropInputReluGrad")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Input("features: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("strides: list(int)")
    .Attr("use_cudnn_on_gpu: bool = true")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Shape(ConvBackpropInputShape)
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc("ReluGrad(Conv2DBackpropInput(input_sizes, filter, out_backprop), features).");

struct Kernel : FusedConvKernel {
  explicit Kernel(KernelInit& init) : FusedConvKernel(init, ConvPass::kBackwardInput) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor &sizes = ctx.input(0), &features = ctx.input(3);
    if (sizes.rank() == 1 && sizes.dim(0) == 4) {
      const int32_t* d = sizes.data<int32_t>();
      const absl::StatusOr<TensorShape> shape = TensorShape::Make({d[0], d[1], d[2], d[3]});
      if (shape.ok() && !features.HasShape(*shape)) {
        return replaced().At(InvalidArgument("the gradient ", shape->DebugString(), " and the features ",
                                             features.shape().DebugString(), " must have the same shape"),
                             "ReluGrad", ctx.node());
      }
    }
    ConvFusion fusion;
    fusion.relu_output = features;
    return Run(ctx, fusion, "Conv2DBackpropInput");
  }
};

TROUPE_KERNEL("_Conv2DBackpropInputReluGrad")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .HostMemory("input_sizes")
    .Class<Kernel>();

}  // namespace
}  // namespace troupe
