// _FusedConv2D, _FusedDepthwiseConv2dNative: a convolution with the bias, the batch normalisation
// of inference, the residual sum and the activation behind it. Made by the pass that fuses nodes;
// graphs from TensorFlow may have them too. A normalisation of constants is multiplied into a
// constant filter once.
//
// _Conv2DBackpropInputReluGrad: the gradient of the input, and of the Relu that made the input.
// _Conv2DBackpropFilterBias: the gradients of filter and bias.
#include <cmath>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "kernels/common/broadcast.h"
#include "kernels/common/types.h"
#include "kernels/nn/batch_norm.h"
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
    .Attr("TArgs: list(type) >= 0")
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
        "Conv2D followed by the ops of fused_ops: BiasAdd with the first vector in args, then FusedBatchNorm by given "
        "statistics (float32; scale, offset, mean and variance in args), then Add of the last of args, then at most "
        "one of Relu, Relu6, Elu and Swish (x * sigmoid(x), float32); not Relu, Relu6 or Elu alone.");

// What the attr fused_ops asks for: BiasAdd, FusedBatchNorm, Add and an activation, in this order,
// each once or not at all.
struct FusedOps {
  bool bias = false, norm = false, add = false;
  ConvActivation activation = ConvActivation::kNone;
  int num_args() const { return (bias ? 1 : 0) + (norm ? 4 : 0) + (add ? 1 : 0); }
  bool float_only() const { return norm || activation == ConvActivation::kSwish; }
};

std::optional<FusedOps> ReadFusedOps(const std::vector<std::string>& ops) {
  FusedOps f;
  auto op = ops.begin();
  const auto take = [&](std::string_view name) {
    const bool here = op != ops.end() && *op == name;
    if (here) ++op;
    return here;
  };
  f.bias = take("BiasAdd");
  f.norm = take("FusedBatchNorm");
  f.add = take("Add");
  if (take("Relu")) {
    f.activation = ConvActivation::kRelu;
  } else if (take("Relu6")) {
    f.activation = ConvActivation::kRelu6;
  } else if (take("Elu")) {
    f.activation = ConvActivation::kElu;
  } else if (take("Swish")) {
    f.activation = ConvActivation::kSwish;
  }
  if (op != ops.end() || (f.num_args() == 0 && f.activation != ConvActivation::kSwish)) return std::nullopt;
  return f;
}

// A filter and a bias with a normalisation in them: (x * filter + bias - mean) * factor + offset is
// x * (filter * factor) + ((bias - mean) * factor + offset).
struct FoldedNorm {
  FoldedNorm(Allocator* allocator, Tensor filter, const Tensor& bias, const GivenNorm& norm);
  // Otherwise the normalisation by itself may make other numbers.
  bool ordinary = true;
  FoldedFilter filter;
  Tensor bias;
};

// `old_bias` may be invalid.
FoldedNorm::FoldedNorm(Allocator* allocator, Tensor of, const Tensor& old_bias, const GivenNorm& norm)
    : filter(allocator, std::move(of), norm.factor), bias(allocator, DType::kFloat, norm.mean.shape()) {
  if (!bias.valid()) throw std::bad_alloc();
  const ChannelNorm n = norm.channels();
  float* const to = bias.data<float>();
  for (int64_t c = 0; c < bias.num_elements(); ++c) {
    to[c] = ((old_bias.valid() ? old_bias.data<float>()[c] : 0) - n.mean[c]) * n.factor[c] + n.offset[c];
    ordinary = ordinary && std::isfinite(to[c]) && std::isfinite(n.factor[c]);
  }
  ordinary = ordinary && filter.IsOrdinary();
}

// Whether the graph has the filter, the bias and the normalisation of a fused node as constants.
bool HasConstantNorm(const Node& node, const FusedOps& ops) {
  if (!ops.norm) return false;
  for (int i = 1; i < (ops.bias ? 7 : 6); ++i) {
    const Node* const from = node.input(i).node;
    if (from == nullptr || !from->IsConstant()) return false;
  }
  return true;
}

template <bool kDepthwise>
class FusedConv2DKernel : public FusedConvKernel {
 public:
  explicit FusedConv2DKernel(KernelInit& init)
      : FusedConvKernel(init, ConvPass::kForward, kDepthwise), epsilon_(init.Attr<float>("epsilon")) {
    if (const auto of = init.node().Attr<std::vector<std::string>>("_replaced_ops"); of.ok()) {
      for (const std::string& op : *of) {
        if (op.starts_with("FusedBatchNorm")) norm_op_ = op;
        if (op == "Add" || op == "AddV2") add_op_ = op;
      }
    }
    const auto ops = init.Attr<std::vector<std::string>>("fused_ops");
    const std::optional<FusedOps> known = ReadFusedOps(ops);
    bool right = known && init.num_inputs() == 2 + known->num_args();
    for (int i = 2; right && i < init.num_inputs(); ++i) right = init.input_type(i) == init.input_type(0);
    if (right && known->add) right = init.input_type(0) == DType::kFloat || init.input_type(0) == DType::kDouble;
    if (right && known->float_only()) right = init.input_type(0) == DType::kFloat;
    if constexpr (!kDepthwise) right = right && init.Attr<std::string>("filter_format") == "HWIO";
    if (!right) {
      init.Fail(Unimplemented("fused_ops [", StrJoin(ops, ", "), "] with ", init.num_inputs() - 2,
                              " args are not known here"));
    } else {
      ops_ = *known;
      constant_norm_ = HasConstantNorm(init.node(), ops_);
    }
  }

  absl::Status Compute(KernelContext& ctx) {
    ConvFusion fusion;
    fusion.activation = ops_.activation;
    const Tensor& filter = ctx.input(1);
    const bool shaped = filter.rank() == 4;  // the convolution refuses another one
    const int64_t channels = !shaped ? 0 : kDepthwise ? filter.dim(2) * filter.dim(3) : filter.dim(3);
    int arg = 2;
    if (ops_.bias) {
      fusion.bias = ctx.input(arg++);
      if (const absl::Status s = CheckBias(fusion.bias, shaped, channels); !s.ok())
        return replaced().At(s, "BiasAdd", ctx.node());
    }
    GivenNorm norm;
    ChannelNorm of_channels;
    if (ops_.norm && shaped) {
      // In every call or in none: the library keeps the filter of the first.
      if (constant_norm_) std::call_once(fold_once_, [&] { FoldNorm(ctx, fusion.bias, channels); });
      if (folded_ != nullptr) {
        fusion.filter = &folded_->filter;
        fusion.bias = folded_->bias;
      } else {
        absl::StatusOr<GivenNorm> read = ReadGivenNorm(ctx, arg, channels, epsilon_);
        if (!read.ok()) return replaced().At(read.status(), norm_op_, ctx.node());
        norm = *std::move(read);
        of_channels = norm.channels();
        fusion.norm = &of_channels;
      }
    }
    if (ops_.add) {
      fusion.addend = ctx.input(ctx.num_inputs() - 1);
      const absl::StatusOr<TensorShape> shape = OutputShape(ctx);
      if (!shape.ok() || !fusion.addend.HasShape(*shape)) return AddApart(ctx, fusion);
    }
    return Convolve(ctx, fusion);
  }

 private:
  static absl::Status CheckBias(const Tensor& bias, bool shaped, int64_t channels) {
    if (bias.rank() != 1) return InvalidArgument("Biases must be 1D: ", bias.shape().DebugString());
    if (!shaped || bias.dim(0) == channels) return absl::OkStatus();
    return InvalidArgument("Must provide as many biases as the channel dimension of the input tensor: ",
                           bias.shape().DebugString(), " vs. ", channels);
  }

  // Without memory now, it is never folded: std::call_once does not get over an exception where it
  // is ThreadSanitizer's.
  void FoldNorm(const KernelContext& ctx, const Tensor& bias, int64_t channels) {
    try {
      const absl::StatusOr<GivenNorm> norm = ReadGivenNorm(ctx, ops_.bias ? 3 : 2, channels, epsilon_);
      if (!norm.ok() || channels == 0) return;
      auto folded = std::make_unique<FoldedNorm>(ctx.allocator(), ctx.input(1), bias, *norm);
      if (folded->ordinary) folded_ = std::move(folded);
    } catch (const std::bad_alloc&) {
    }
  }

  absl::Status Convolve(KernelContext& ctx, const ConvFusion& fusion) {
    return Run(ctx, fusion, kDepthwise ? "DepthwiseConv2dNative" : "Conv2D");
  }

  // An addend of another shape than the convolution's: they may still broadcast.
  absl::Status AddApart(KernelContext& ctx, ConvFusion fusion) {
    const Tensor addend = std::move(fusion.addend);
    fusion.addend = Tensor();
    fusion.activation = ConvActivation::kNone;
    TROUPE_RETURN_IF_ERROR(Convolve(ctx, fusion));
    const Tensor convolved = *ctx.output(0);
    const absl::StatusOr<TensorShape> shape = math::BroadcastTensors(convolved, addend);
    if (!shape.ok()) return replaced().At(shape.status(), add_op_, ctx.node());
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, *shape));
    if (out->num_elements() == 0) return absl::OkStatus();
    const auto add = [&]<class T>(T) {
      const math::BroadcastWalk<2> walk(*shape, {&convolved, &addend});
      const T *a = convolved.data<T>(), *b = addend.data<T>();
      T* const z = out->data<T>();
      const int64_t da = walk.advances(0) ? 1 : 0, db = walk.advances(1) ? 1 : 0;
      walk.ForRange(0, out->num_elements(), [&](const std::array<int64_t, 2>& at, int64_t to, int64_t n) {
        for (int64_t i = 0; i < n; ++i) z[to + i] = a[at[0] + i * da] + b[at[1] + i * db];
      });
      FinishForward<T>({.activation = ops_.activation}, out->num_elements(), 1, z);
    };
    out->dtype() == DType::kFloat ? add(float()) : add(double());
    return absl::OkStatus();
  }

  FusedOps ops_;
  const float epsilon_;
  bool constant_norm_ = false;
  std::once_flag fold_once_;
  std::unique_ptr<FoldedNorm> folded_;  // set once
  std::string norm_op_, add_op_;        // the versions that are replaced
};

TROUPE_KERNEL("_FusedConv2D").Device("CPU").Type<Half, float, double>("T").Class<FusedConv2DKernel<false>>();

TROUPE_OP("_FusedDepthwiseConv2dNative")
    .Input("input: T")
    .Input("filter: T")
    .Input("args: num_args * T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("num_args: int >= 0")
    .Attr("strides: list(int)")
    .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
    .Attr("dilations: list(int) = [1, 1, 1, 1]")
    .Attr("fused_ops: list(string) = []")
    .Attr("epsilon: float = 0.0001")
    .Attr("leakyrelu_alpha: float = 0.2")
    .Shape([](InferenceContext& c) { return ConvOutputShape(c, true); })
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc("DepthwiseConv2dNative followed by the ops of fused_ops, as in _FusedConv2D.");

TROUPE_KERNEL("_FusedDepthwiseConv2dNative")
    .Device("CPU")
    .Type<Half, float, double>("T")
    .Class<FusedConv2DKernel<true>>();

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
