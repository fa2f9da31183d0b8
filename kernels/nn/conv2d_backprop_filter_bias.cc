// _Conv2DBackpropFilterBias: the gradients of Conv2D's filter and of the bias behind it, from one
// look at the gradient of their output.
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

TROUPE_OP("_Conv2DBackpropFilterBias")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .Output("bias_output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("strides: list(int)")
    .Attr("use_cudnn_on_gpu: bool = true")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(ConvBackpropFilterShape(c));
      c.set_output(1, {c.output(0).known_rank() ? c.output(0).dim(3) : -1});
      return absl::OkStatus();
    })
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc("Conv2DBackpropFilter(input, filter_sizes, out_backprop), and BiasAddGrad(out_backprop).");

struct Kernel : FusedConvKernel {
  explicit Kernel(KernelInit& init) : FusedConvKernel(init, ConvPass::kBackwardFilter) {}
  absl::Status Compute(KernelContext& ctx) {
    ConvFusion fusion;
    fusion.bias_gradient = true;
    return Run(ctx, fusion, "Conv2DBackpropFilter");
  }
};

TROUPE_KERNEL("_Conv2DBackpropFilterBias")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .HostMemory("filter_sizes")
    .Class<Kernel>();

}  // namespace
}  // namespace troupe
