// FusedBatchNorm, its versions and their gradients: batch normalisation
// (https://arxiv.org/abs/1502.03167) of images. Those whose names begin with _ are made by the pass
// that fuses nodes; graphs from TensorFlow may have them too.
#include <string_view>

#include "kernels/common/types.h"
#include "kernels/nn/batch_norm.h"

namespace troupe {
namespace {

// What differs between the versions.
struct Version {
  std::string_view suffix, types;
  // The types of scale, offset, mean and variance; empty where these have the type of x.
  std::string_view statistic_types;
  std::string_view data_formats;
  int reserves;  // values that are handed to the gradient
};
constexpr Version kV1 = {"", "{float}", "", "{'NHWC', 'NCHW'}", 2};
constexpr Version kV2 = {"V2", "{half, bfloat16, float}", "{float}", "{'NHWC', 'NCHW'}", 2};
constexpr Version kV3 = {"V3", "{half, bfloat16, float}", "{bfloat16, float}", "{'NHWC', 'NCHW', 'NDHWC', 'NCDHW'}", 3};

void AddTypes(const Version& v, OpBuilder* op) {
  op->Attr(StrCat("T: ", v.types));
  if (!v.statistic_types.empty()) op->Attr(StrCat("U: ", v.statistic_types));
  op->Attr("epsilon: float = 0.0001");
}

// Without gradient.
OpBuilder NormOp(const Version& v) {
  const std::string_view u = v.statistic_types.empty() ? ": T" : ": U";
  OpBuilder op(StrCat("FusedBatchNorm", v.suffix));
  op.Input("x: T").Output("y: T");
  for (const char* in : {"scale", "offset", "mean", "variance"}) op.Input(StrCat(in, u));
  for (const char* out : {"batch_mean", "batch_variance"}) op.Output(StrCat(out, u));
  for (int i = 1; i <= v.reserves; ++i) op.Output(StrCat("reserve_space_", i, u));
  AddTypes(v, &op);
  return op.Attr("exponential_avg_factor: float = 1.0")
      .Attr(StrCat("data_format: ", v.data_formats, " = 'NHWC'"))
      .Attr("is_training: bool = true")
      .Shape(BatchNormShape)
      .Doc(
          "(x - mean) / sqrt(variance + epsilon) * scale + offset for each channel. Where is_training, mean and "
          "variance are the batch's own; batch_mean and batch_variance are what to keep for later, the reserves are "
          "for the gradient.");
}

OpBuilder GradOp(const Version& v) {
  const std::string_view u = v.statistic_types.empty() ? ": T" : ": U";
  OpBuilder op(StrCat("FusedBatchNormGrad", v.suffix));
  op.Input("y_backprop: T").Input("x: T").Input(v.statistic_types.empty() ? "scale: T" : "scale: float");
  for (int i = 1; i <= v.reserves; ++i) op.Input(StrCat("reserve_space_", i, u));
  op.Output("x_backprop: T");
  for (const char* out : {"scale_backprop", "offset_backprop"}) op.Output(StrCat(out, u));
  for (int i = 1; i <= 2; ++i) op.Output(StrCat("reserve_space_", v.reserves + i, u));
  AddTypes(v, &op);
  return op.Attr(StrCat("data_format: ", v.data_formats, " = 'NHWC'"))
      .Attr("is_training: bool = true")
      .Trait(OpTrait::kReusesInput)
      .Shape(BatchNormGradShape)
      .NotDifferentiable("second derivatives of batch normalisation are not defined")
      .Doc(StrCat("The gradients of FusedBatchNorm", v.suffix,
                  " with respect to x, scale and offset. reserve_space_1 and 2 are its outputs of that name where "
                  "is_training, else its inputs mean and variance. The last two outputs are unused."));
}

const OpRegistrar norm =
    NormOp(kV1).Gradient([](GradientContext& g) { return BatchNormGradient(g, "FusedBatchNormGrad"); });
TROUPE_CPU_KERNEL("FusedBatchNorm").Class<BatchNormKernel>();
const OpRegistrar norm_v2 =
    NormOp(kV2).Gradient([](GradientContext& g) { return BatchNormGradient(g, "FusedBatchNormGradV2"); });
TROUPE_CPU_KERNEL("FusedBatchNormV2").Type<float>("U").Class<BatchNormKernel>();
const OpRegistrar norm_v3 =
    NormOp(kV3).Gradient([](GradientContext& g) { return BatchNormGradient(g, "FusedBatchNormGradV3"); });
TROUPE_CPU_KERNEL("FusedBatchNormV3").Type<BFloat16, float>("U").Class<BatchNormKernel>();

const OpRegistrar grad = GradOp(kV1);
TROUPE_CPU_KERNEL("FusedBatchNormGrad").Class<BatchNormGradKernel>();
const OpRegistrar grad_v2 = GradOp(kV2);
TROUPE_CPU_KERNEL("FusedBatchNormGradV2").Type<float>("U").Class<BatchNormGradKernel>();
const OpRegistrar grad_v3 = GradOp(kV3);
TROUPE_CPU_KERNEL("FusedBatchNormGradV3").Type<BFloat16, float>("U").Class<BatchNormGradKernel>();

// With an activation.
const OpRegistrar norm_ex =
    OpBuilder("_FusedBatchNormEx")
        .Input("x: T")
        .Input("scale: U")
        .Input("offset: U")
        .Input("mean: U")
        .Input("variance: U")
        .Input("side_input: num_side_inputs * T")
        .Output("y: T")
        .Output("batch_mean: U")
        .Output("batch_variance: U")
        .Output("reserve_space_1: U")
        .Output("reserve_space_2: U")
        .Output("reserve_space_3: U")
        .Attr("T: {half, float, bfloat16}")
        .Attr("U: {float}")
        .Attr("epsilon: float = 0.0001")
        .Attr("exponential_avg_factor: float = 1.0")
        .Attr("num_side_inputs: int >= 0 = 0")
        .Attr("activation_mode: string = 'Identity'")
        .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
        .Attr("is_training: bool = true")
        .Shape(BatchNormShape)
        .NotDifferentiable("gradients are built before nodes are fused")
        .Doc("FusedBatchNormV3 of float32, and Relu, Relu6 or nothing (Identity) of its y. No side inputs.");
TROUPE_CPU_KERNEL("_FusedBatchNormEx").Type<float>("T").Class<BatchNormKernel>();

const OpRegistrar grad_ex =
    OpBuilder("_FusedBatchNormGradEx")
        .Input("y_backprop: T")
        .Input("x: T")
        .Input("scale: float")
        .Input("reserve_space_1: U")
        .Input("reserve_space_2: U")
        .Input("reserve_space_3: U")
        .Input("offset: float")
        .Input("y: T")
        .Output("x_backprop: T")
        .Output("scale_backprop: U")
        .Output("offset_backprop: U")
        .Output("reserve_space_4: U")
        .Output("reserve_space_5: U")
        .Output("side_input_backprop: num_side_inputs * T")
        .Attr("T: {half, float}")
        .Attr("U: {float}")
        .Attr("epsilon: float = 0.0001")
        .Attr("num_side_inputs: int >= 0 = 0")
        .Attr("activation_mode: string = 'Identity'")
        .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
        .Attr("is_training: bool = true")
        .Trait(OpTrait::kReusesInput)
        .Shape(BatchNormGradShape)
        .NotDifferentiable("gradients are built before nodes are fused")
        .Doc(
            "The gradients of _FusedBatchNormEx with respect to x, scale and offset: FusedBatchNormGradV3 of what the "
            "activation's gradient makes of y_backprop. y is not read: x tells where the activation lets through.");
TROUPE_CPU_KERNEL("_FusedBatchNormGradEx").Type<float>("T").Class<BatchNormGradKernel>();

}  // namespace
}  // namespace troupe
