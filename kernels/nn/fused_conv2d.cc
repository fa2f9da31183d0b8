// _FusedConv2D: Conv2D with the bias and the activation behind it. Made by the pass that fuses
// nodes; graphs from TensorFlow may have it too.
//
// _Conv2DBackpropInputReluGrad: the gradient of the input, and of the Relu that made the input.
// _Conv2DBackpropFilterBias: the gradients of filter and bias.
#include "kernels/common/types.h"
#include "kernels/nn/conv.h"
#include "troupe/op_def.h"

namespace troupe {
namespace {

TROUPE_OP("_FusedConv2D")
    .Input("input: T")
    .Input("filter: T")
    .Input("args: TArgs")
    .Input("host_args: num_host_args * float")
    .Output("output: T")
    .Attr("T: {half, float, double, int8, qint8}")
    .Attr("TArgs: list(type) >= 1")
    .Attr("num_args: int >= 0")
    .Attr("num_host_args: int >= 0 = 0")
    .Attr("strides: list(int)")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
    .Attr("filter_format: {'HWIO', 'OIHW', 'OIHW_VECT_I'} = 'HWIO'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Attr("use_cudnn_on_gpu: bool = true")
    .Attr("fused_ops: list(string) = []")
    .Attr("epsilon: float = 0.0001")
    .Attr("leakyrelu_alpha: float = 0.2")
    .Shape([](InferenceContext& c) { return ConvOutputShape(c, false); })
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc(
        "Conv2D followed by the ops of fused_ops: BiasAdd with the vector in args, then at most one of Relu, Relu6 and "
        "Elu.");

class FusedConv2DKernel : public FusedConvKernel {
 public:
  explicit FusedConv2DKernel(KernelInit& init) : FusedConvKernel(init, ConvPass::kForward) {
    const auto ops = init.Attr<std::vector<std::string>>("fused_ops");
    bool known = !ops.empty() && ops.size() <= 2 && ops[0] == "BiasAdd" && init.num_inputs() == 3 &&
                 init.input_type(2) == init.input_type(0) && init.Attr<std::string>("filter_format") == "HWIO";
    if (ops.size() == 2) {
      activation_ = ops[1] == "Relu"    ? ConvActivation::kRelu
                    : ops[1] == "Relu6" ? ConvActivation::kRelu6
                                        : ConvActivation::kElu;
      known &= ops[1] == "Relu" || ops[1] == "Relu6" || ops[1] == "Elu";
    }
    if (!known)
      init.Fail(Unimplemented("fused_ops [", StrJoin(ops, ", "), "] with ", init.num_inputs() - 2,
                              " args are not known here"));
  }

  absl::Status Compute(KernelContext& ctx) {
    const Tensor bias = ctx.input(2);
    const Tensor& filter = ctx.input(1);
    if (bias.rank() != 1)
      return replaced().At(InvalidArgument("Biases must be 1D: ", bias.shape().DebugString()), "BiasAdd", ctx.node());
    if (filter.rank() == 4 && bias.dim(0) != filter.dim(3)) {
      return replaced().At(InvalidArgument("Must provide as many biases as the channel dimension of the input tensor: ",
                                           bias.shape().DebugString(), " vs. ", filter.dim(3)),
                           "BiasAdd", ctx.node());
    }
    ConvFusion fusion;
    fusion.bias = bias;
    fusion.activation = activation_;
    return Run(ctx, fusion, "Conv2D");
  }

 private:
  ConvActivation activation_ = ConvActivation::kNone;
};

TROUPE_KERNEL("_FusedConv2D").Device("CPU").Type<Half, float, double>("T").Class<FusedConv2DKernel>();

const OpRegistrar conv2d_backprop_input_relu_grad =
    ConvOp("_Conv2DBackpropInputReluGrad", {"input_sizes: int32", "filter: T", "out_backprop: T", "features: T"})
        .Shape(ConvBackpropInputShape)
        .NotDifferentiable("gradients are built before nodes are fused")
        .Doc("ReluGrad(Conv2DBackpropInput(input_sizes, filter, out_backprop), features).");

struct Conv2dBackpropInputReluGradKernel : FusedConvKernel {
  explicit Conv2dBackpropInputReluGradKernel(KernelInit& init) : FusedConvKernel(init, ConvPass::kBackwardInput) {}
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

TROUPE_CPU_KERNEL("_Conv2DBackpropInputReluGrad").HostMemory("input_sizes").Class<Conv2dBackpropInputReluGradKernel>();

const OpRegistrar conv2d_backprop_filter_bias =
    ConvOp("_Conv2DBackpropFilterBias", {"input: T", "filter_sizes: int32", "out_backprop: T"})
        .Output("bias_output: T")
        .Shape([](InferenceContext& c) -> absl::Status {
          TROUPE_RETURN_IF_ERROR(ConvBackpropFilterShape(c));
          c.set_output(1, {c.output(0).known_rank() ? c.output(0).dim(3) : -1});
          return absl::OkStatus();
        })
        .NotDifferentiable("gradients are built before nodes are fused")
        .Doc("Conv2DBackpropFilter(input, filter_sizes, out_backprop), and BiasAddGrad(out_backprop).");

struct Conv2dBackpropFilterBiasKernel : FusedConvKernel {
  explicit Conv2dBackpropFilterBiasKernel(KernelInit& init) : FusedConvKernel(init, ConvPass::kBackwardFilter) {}
  absl::Status Compute(KernelContext& ctx) {
    ConvFusion fusion;
    fusion.bias_gradient = true;
    return Run(ctx, fusion, "Conv2DBackpropFilter");
  }
};

TROUPE_CPU_KERNEL("_Conv2DBackpropFilterBias").HostMemory("filter_sizes").Class<Conv2dBackpropFilterBiasKernel>();

}  // namespace
}  // namespace troupe
