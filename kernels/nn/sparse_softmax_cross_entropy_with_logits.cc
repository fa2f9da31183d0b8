// SparseSoftmaxCrossEntropyWithLogits: the loss of a classifier against one right class per row,
// and its gradient in the same pass.
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/nn/softmax.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape features, c.WithRank(0, 2));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape labels, c.WithRank(1, 1));
  TROUPE_ASSIGN_OR_RETURN(int64_t rows, MergeDims(features.dim(0), labels.dim(0)));
  c.set_output(0, {rows});
  c.set_output(1, {rows, features.dim(1)});
  return absl::OkStatus();
}

TROUPE_OP("SparseSoftmaxCrossEntropyWithLogits")
    .Input("features: T")
    .Input("labels: Tlabels")
    .Output("loss: T")
    .Output("backprop: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Attr("Tlabels: {int32, int64} = DT_INT64")
    .Shape(Shape)
    .Gradient([](GradientContext& g) {
      if (const NodeOut d = LogitsGradient(g); d.valid()) g.Set(0, d);
      return g.status();
    })
    .Doc(
        "For each row of the logits in features: the cross entropy between their softmax and the class that labels "
        "names, and in backprop its "
        "gradient. A label outside of [0, number of classes) is an error.");

absl::Status Compute(KernelContext& ctx) {
  const DType dtype = ctx.node().input_types[0];
  const Tensor &features = ctx.input(0), &labels = ctx.input(1);
  const std::string fs = features.shape().DebugString(), ls = labels.shape().DebugString();
  if (features.rank() != 2) return InvalidArgument("logits must be 2-D, but got shape ", fs);
  if (labels.rank() != 1) return InvalidArgument("labels must be 1-D, but got shape ", ls);
  if (features.dim(0) != labels.dim(0)) {
    return InvalidArgument("logits and labels must have the same first dimension, got logits shape ", fs,
                           " and labels shape ", ls);
  }
  if (features.dim(1) == 0) return InvalidArgument("Must have at least one class, but got logits shape ", fs);
  const int64_t rows = features.dim(0), columns = features.dim(1);
  std::vector<int64_t> label(rows);
  for (int64_t i = 0; i < rows; ++i) {
    label[i] = labels.dtype() == DType::kInt32 ? labels.data<int32_t>()[i] : labels.data<int64_t>()[i];
    if (label[i] < 0 || label[i] >= columns) {
      return InvalidArgument("Received a label value of ", label[i], " which is outside the valid range of [0, ",
                             columns, ").  It is label ", i, " of ", labels.DebugString());
    }
  }
  const Tensor x = Widened(ctx, features);
  TROUPE_ASSIGN_OR_RETURN(Tensor loss, ctx.AllocateTemp(x.dtype(), TensorShape({rows})));
  TROUPE_ASSIGN_OR_RETURN(Tensor backprop, ctx.AllocateTemp(x.dtype(), TensorShape({rows, columns})));
  SparseCrossEntropy(ctx.threads(), x.dtype(), x.raw(), label.data(), loss.raw(), backprop.raw(), rows, columns);
  ctx.set_output(0, Narrowed(ctx, std::move(loss), dtype));
  ctx.set_output(1, Narrowed(ctx, std::move(backprop), dtype));
  return absl::OkStatus();
}

TROUPE_KERNEL("SparseSoftmaxCrossEntropyWithLogits")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Type<int32_t, int64_t>("Tlabels")
    .Function<Compute>();

}  // namespace
}  // namespace troupe
