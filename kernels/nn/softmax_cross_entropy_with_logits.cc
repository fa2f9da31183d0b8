// SoftmaxCrossEntropyWithLogits: the loss of a classifier against a distribution over the classes,
// and its gradient in the same pass.
#include "kernels/common/as_float.h"
#include "kernels/nn/softmax.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape both, BroadcastPartialShapes(c.input(0), c.input(1)));
  if (!both.known_rank()) {
    c.set_output(0, {-1});
    c.set_output(1, {-1, -1});
    return absl::OkStatus();
  }
  if (both.rank() != 2) {
    return InvalidArgument("logits and labels must be 2-dimensional, or broadcast to 2 dimensions: ",
                           c.input(0).DebugString(), " and ", c.input(1).DebugString());
  }
  c.set_output(0, {both.dim(0)});
  c.set_output(1, both);
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& g) {
  // An input that was broadcast gets the sum over what it was repeated for; shapes that are not
  // known are taken to be equal.
  const PartialTensorShape x = g.InputShape(0), y = g.InputShape(1);
  const bool broadcast = !x.IsCompatibleWith(y);
  auto set = [&](int i, NodeOut d) {
    if (d.valid()) g.Set(i, broadcast ? g.SumToShapeOf(d, i) : d);
  };
  set(0, LogitsGradient(g));
  if (g.HasGrad(0)) {
    const NodeOut d = g.Op("ExpandDims", {g.Grad(0), g.Const(Tensor::Scalar<int32_t>(-1))});
    set(1, g.Op("Mul", {d, g.Op("Neg", {g.Op("LogSoftmax", {g.Input(0)})})}));
  }
  return g.status();
}

TROUPE_OP("SoftmaxCrossEntropyWithLogits")
    .Input("features: T")
    .Input("labels: T")
    .Output("loss: T")
    .Output("backprop: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "For each row of the logits in features: the cross entropy between their softmax and the row of labels, and in "
        "backprop its gradient "
        "softmax(features) - labels. features and labels are matrices or broadcast to one.");

// `t` repeated to the matrix `to`, which its shape broadcasts to.
absl::StatusOr<Tensor> BroadcastTo(KernelContext& ctx, const Tensor& t, const TensorShape& to) {
  if (t.HasShape(to)) return t;
  const int64_t columns = t.rank() > 0 ? t.dim(t.rank() - 1) : 1, rows = t.rank() > 1 ? t.dim(0) : 1;
  TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(t.dtype(), to));
  const size_t size = SizeOf(t.dtype());
  const char* from = static_cast<const char*>(t.raw());
  char* at = static_cast<char*>(out.raw());
  for (int64_t r = 0; r < to.dim(0); ++r) {
    for (int64_t c = 0; c < to.dim(1); ++c, at += size) {
      std::memcpy(at, from + ((rows == 1 ? 0 : r) * columns + (columns == 1 ? 0 : c)) * size, size);
    }
  }
  return out;
}

absl::Status Compute(KernelContext& ctx) {
  const DType dtype = ctx.node().input_types[0];
  const absl::StatusOr<TensorShape> shape = BroadcastShapes(ctx.input(0).shape(), ctx.input(1).shape());
  if (!shape.ok()) {
    return InvalidArgument("logits and labels must be broadcastable: logits_size=", ctx.input(0).shape().DebugString(),
                           " labels_size=", ctx.input(1).shape().DebugString());
  }
  if (shape->rank() != 2) {
    return InvalidArgument("logits and labels must be either 2-dimensional, or broadcasted to be 2-dimensional: ",
                           ctx.input(0).shape().DebugString(), " and ", ctx.input(1).shape().DebugString());
  }
  const int64_t rows = shape->dim(0), columns = shape->dim(1);
  TROUPE_ASSIGN_OR_RETURN(const Tensor x, BroadcastTo(ctx, Widened(ctx, ctx.input(0)), *shape));
  TROUPE_ASSIGN_OR_RETURN(const Tensor labels, BroadcastTo(ctx, Widened(ctx, ctx.input(1)), *shape));
  TROUPE_ASSIGN_OR_RETURN(Tensor loss, ctx.AllocateTemp(ComputeType(dtype), TensorShape({rows})));
  TROUPE_ASSIGN_OR_RETURN(Tensor backprop, ctx.AllocateTemp(ComputeType(dtype), *shape));
  if (columns == 0) {
    std::memset(loss.raw(), 0, loss.bytes());
  } else {
    CrossEntropy(ctx.threads(), x.dtype(), x.raw(), labels.raw(), loss.raw(), backprop.raw(), rows, columns);
  }
  ctx.set_output(0, Narrowed(ctx, std::move(loss), dtype));
  ctx.set_output(1, Narrowed(ctx, std::move(backprop), dtype));
  return absl::OkStatus();
}

TROUPE_KERNEL("SoftmaxCrossEntropyWithLogits")
    .Device("CPU")
    .Type<Half, BFloat16, float, double>("T")
    .Function<Compute>();

}  // namespace
}  // namespace troupe
