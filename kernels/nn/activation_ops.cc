// The Relu family: functions that are applied to each element of a layer, and the gradient of each
// as an op of its own.
#include <string_view>

#include "kernels/common/types.h"
#include "kernels/nn/activation.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

constexpr std::string_view kFloatTypes = "T: {half, bfloat16, float, double}";

// The definition of a function, without gradient and doc.
OpBuilder FunctionOp(std::string_view name, std::string_view types = kFloatTypes) {
  return OpBuilder(name).Input("features: T").Output("activations: T").Attr(types).Shape(shape_fn::Unchanged);
}
// The definition of its gradient, without gradient and doc. `features`: the input besides the
// arriving gradient, which is the function's input or output.
OpBuilder GradOp(std::string_view name, std::string_view types = kFloatTypes,
                 std::string_view features = "features: T") {
  return OpBuilder(name)
      .Input("gradients: T")
      .Input(features)
      .Output("backprops: T")
      .Attr(types)
      .Shape(shape_fn::MergeAll);
}

const OpRegistrar relu =
    FunctionOp("Relu",
               "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8}")
        .Gradient([](GradientContext& g) {
          g.Set(0, g.Op("ReluGrad", {g.Grad(0), g.Output(0)}));
          return g.status();
        })
        .Doc("max(features, 0), element by element.");

TROUPE_KERNEL("Relu").Device("CPU").Types("T", kReals).Class<ActivationOf<Activation::kRelu>>();

const OpRegistrar relu_grad =
    GradOp("ReluGrad", "T: realnumbertype")
        .Gradient(PiecewiseLinearGradGradient)
        .Doc("Lets gradients through where features > 0. features may be the input or the output of Relu.");

TROUPE_CPU_KERNEL("ReluGrad").Class<ActivationGradOf<Activation::kRelu>>();

const OpRegistrar relu6 = FunctionOp("Relu6", "T: realnumbertype")
                              .Gradient([](GradientContext& g) {
                                g.Set(0, g.Op("Relu6Grad", {g.Grad(0), g.Output(0)}));
                                return g.status();
                              })
                              .Doc("min(max(features, 0), 6), element by element.");

TROUPE_CPU_KERNEL("Relu6").Class<ActivationOf<Activation::kRelu6>>();

const OpRegistrar relu6_grad =
    GradOp("Relu6Grad", "T: realnumbertype")
        .Gradient(PiecewiseLinearGradGradient)
        .Doc("Lets gradients through where 0 < features < 6. features may be the input or the output of Relu6.");

TROUPE_CPU_KERNEL("Relu6Grad").Class<ActivationGradOf<Activation::kRelu6>>();

TROUPE_OP("LeakyRelu")
    .Input("features: T")
    .Output("activations: T")
    .Attr("alpha: float = 0.2")
    .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("LeakyReluGrad", {g.Grad(0), g.Input(0)}, {{"alpha", g.Attr<float>("alpha")}}));
      return g.status();
    })
    .Doc("features where they are positive, features * alpha elsewhere.");

TROUPE_CPU_KERNEL("LeakyRelu").Class<ActivationOf<Activation::kLeakyRelu>>();

TROUPE_OP("LeakyReluGrad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("alpha: float = 0.2")
    .Attr("T: {half, bfloat16, float, double} = DT_FLOAT")
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) {
      // The gradient is piecewise constant in the features: nothing flows to them.
      g.Set(0, g.Op("LeakyReluGrad", {g.Grad(0), g.Input(1)}, {{"alpha", g.Attr<float>("alpha")}}));
      return g.status();
    })
    .Doc("gradients where features > 0, gradients * alpha elsewhere.");

TROUPE_CPU_KERNEL("LeakyReluGrad").Class<ActivationGradOf<Activation::kLeakyRelu>>();

const OpRegistrar elu =
    FunctionOp("Elu")
        .Gradient([](GradientContext& g) {
          g.Set(0, g.Op("EluGrad", {g.Grad(0), g.Output(0)}));
          return g.status();
        })
        .Doc("exp(features) - 1 where features < 0, features elsewhere (https://arxiv.org/abs/1511.07289).");

TROUPE_CPU_KERNEL("Elu").Class<ActivationOf<Activation::kElu>>();

const OpRegistrar elu_grad =
    GradOp("EluGrad", kFloatTypes, "outputs: T")
        .Gradient(ExponentialGradGradient)
        .Doc("gradients * (outputs + 1) where outputs < 0, gradients elsewhere; outputs is what Elu gave.");

TROUPE_CPU_KERNEL("EluGrad").Class<ActivationGradOf<Activation::kElu>>();

const OpRegistrar selu =
    FunctionOp("Selu")
        .Gradient([](GradientContext& g) {
          g.Set(0, g.Op("SeluGrad", {g.Grad(0), g.Output(0)}));
          return g.status();
        })
        .Doc(
            "scale * alpha * (exp(features) - 1) where features < 0, scale * features elsewhere, with scale = 1.0507 "
            "and alpha = 1.6733, which keep activations normalised (https://arxiv.org/abs/1706.02515).");

TROUPE_CPU_KERNEL("Selu").Class<ActivationOf<Activation::kSelu>>();

const OpRegistrar selu_grad = GradOp("SeluGrad", kFloatTypes, "outputs: T")
                                  .Gradient(ExponentialGradGradient)
                                  .Doc(
                                      "gradients * (outputs + scale * alpha) where outputs < 0, gradients * scale "
                                      "elsewhere; outputs is what Selu gave.");

TROUPE_CPU_KERNEL("SeluGrad").Class<ActivationGradOf<Activation::kSelu>>();

const OpRegistrar softplus = FunctionOp("Softplus")
                                 .Gradient([](GradientContext& g) {
                                   g.Set(0, g.Op("SoftplusGrad", {g.Grad(0), g.Input(0)}));
                                   return g.status();
                                 })
                                 .Doc("log(1 + exp(features)), element by element, without overflow.");

TROUPE_CPU_KERNEL("Softplus").Class<ActivationOf<Activation::kSoftplus>>();

const OpRegistrar softplus_grad =
    GradOp("SoftplusGrad")
        .Gradient([](GradientContext& g) {
          const NodeOut dy = g.Input(0), x = g.Input(1);
          g.Set(0, g.Op("SoftplusGrad", {g.Grad(0), x}));
          const NodeOut e = g.Op("Exp", {x}), e_minus = g.Op("Exp", {g.Op("Neg", {x})});
          const NodeOut slope = g.Op("Add", {g.Op("Add", {e_minus, g.ScalarLike(x, 2)}), e});
          g.Set(1, g.Op("RealDiv", {g.Op("Mul", {g.Grad(0), dy}), slope}));
          return g.status();
        })
        .Doc("gradients / (1 + exp(-features)).");

TROUPE_CPU_KERNEL("SoftplusGrad").Class<ActivationGradOf<Activation::kSoftplus>>();

const OpRegistrar softsign = FunctionOp("Softsign")
                                 .Gradient([](GradientContext& g) {
                                   g.Set(0, g.Op("SoftsignGrad", {g.Grad(0), g.Input(0)}));
                                   return g.status();
                                 })
                                 .Doc("features / (abs(features) + 1), element by element.");

TROUPE_CPU_KERNEL("Softsign").Class<ActivationOf<Activation::kSoftsign>>();

const OpRegistrar softsign_grad = GradOp("SoftsignGrad")
                                      .NotDifferentiable("its gradient is not defined, as in TensorFlow")
                                      .Doc("gradients / (1 + abs(features))^2.");

TROUPE_CPU_KERNEL("SoftsignGrad").Class<ActivationGradOf<Activation::kSoftsign>>();

}  // namespace
}  // namespace troupe
