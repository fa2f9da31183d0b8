// Softmax and LogSoftmax over the last dimension, and the losses that have a softmax inside:
// SoftmaxCrossEntropyWithLogits (against a distribution over the classes) and
// SparseSoftmaxCrossEntropyWithLogits (against one right class a row), with their gradients in the
// same pass. Rows are split among the threads.
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/isa.h"
#include "kernels/common/types.h"
#include "kernels/nn/softmax_loops.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

TROUPE_ISA_TABLE(SoftmaxTable, kSoftmax, PickSoftmax)

namespace troupe {
namespace {

double RowCost(DType dtype, int64_t columns) {
  return 10 + static_cast<double>(columns) * (dtype == DType::kDouble ? 3 : 1);
}

template <class T, class F>
void Rows(ComputeThreads* threads, int64_t rows, int64_t columns, F f) {
  threads->ParallelFor(rows, RowCost(kDTypeOf<T>, columns), f);
}

// Calls f(loops, a T) for float32 or float64.
template <class F>
void Dispatch(DType dtype, F f) {
  if (dtype == DType::kDouble) return f(PickSoftmax().f64, double());
  f(PickSoftmax().f32, float());
}

absl::Status SoftmaxShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape logits, c.WithRankAtLeast(0, 1));
  c.set_output(0, std::move(logits));
  return absl::OkStatus();
}

// Kernel and shape function of Softmax and LogSoftmax: the last dimension of a tensor of rank 1 or
// more.
absl::Status ComputeSoftmax(KernelContext& ctx, bool log) {
  const DType dtype = ctx.node().input_types[0];
  if (ctx.input(0).rank() < 1)
    return InvalidArgument("logits must have >= 1 dimension, got ", ctx.input(0).shape().DebugString());
  const TensorShape shape = ctx.input(0).shape();
  const int64_t columns = shape.dim(shape.rank() - 1), rows = columns == 0 ? 0 : shape.num_elements() / columns;
  Tensor wide = Widened(ctx, ctx.input(0));
  const void* x = wide.raw();
  Tensor* y = &wide;
  if (!IsSmallFloat(dtype)) {
    wide = Tensor();
    TROUPE_ASSIGN_OR_RETURN(y, ctx.ForwardOrAllocate({0}, 0, shape));
  }
  Dispatch(dtype, [&](const auto& loops, auto zero) {
    using T = decltype(zero);
    Rows<T>(ctx.threads(), rows, columns, [&](int64_t b, int64_t e) {
      (log ? loops.log_softmax : loops.softmax)(static_cast<const T*>(x) + b * columns,
                                                static_cast<T*>(y->raw()) + b * columns, e - b, columns);
    });
  });
  if (IsSmallFloat(dtype)) ctx.set_output(0, Narrowed(ctx, std::move(wide), dtype));
  return absl::OkStatus();
}

// The gradient of a loss op with outputs (loss, backprop) with respect to its logits: d(loss) *
// backprop, and for a gradient d that arrives at backprop (a second derivative) also (d - sum(d *
// softmax)) * softmax.
NodeOut LogitsGradient(GradientContext& g) {
  auto axis = [&g] { return g.Const(Tensor::Scalar<int32_t>(-1)); };
  NodeOut sum;
  if (g.HasGrad(0)) sum = g.Op("Mul", {g.Op("ExpandDims", {g.Grad(0), axis()}), g.Output(1)});
  if (g.HasGrad(1)) {
    const NodeOut d = g.Grad(1), y = g.Op("Softmax", {g.Input(0)});
    const NodeOut mean = g.Op("Sum", {g.Op("Mul", {d, y}), axis()}, {{"keep_dims", true}});
    const NodeOut second = g.Op("Mul", {g.Op("Sub", {d, mean}), y});
    sum = sum.valid() ? g.Op("Add", {sum, second}) : second;
  }
  return sum;
}

// `logits` and `labels`: dense [rows, columns] of float32 or float64 (`dtype`).
void CrossEntropy(ComputeThreads* threads, DType dtype, const void* logits, const void* labels, void* loss,
                  void* backprop, int64_t rows, int64_t columns) {
  Dispatch(dtype, [&](const auto& loops, auto zero) {
    using T = decltype(zero);
    Rows<T>(threads, rows, columns, [&](int64_t b, int64_t e) {
      loops.cross_entropy(static_cast<const T*>(logits) + b * columns, static_cast<const T*>(labels) + b * columns,
                          static_cast<T*>(loss) + b, static_cast<T*>(backprop) + b * columns, e - b, columns);
    });
  });
}

void SparseCrossEntropy(ComputeThreads* threads, DType dtype, const void* logits, const int64_t* labels, void* loss,
                        void* backprop, int64_t rows, int64_t columns) {
  Dispatch(dtype, [&](const auto& loops, auto zero) {
    using T = decltype(zero);
    Rows<T>(threads, rows, columns, [&](int64_t b, int64_t e) {
      loops.sparse_cross_entropy(static_cast<const T*>(logits) + b * columns, labels + b, static_cast<T*>(loss) + b,
                                 static_cast<T*>(backprop) + b * columns, e - b, columns);
    });
  });
}

// y = softmax(x): dx = (dy - sum(dy * y)) * y.
absl::Status SoftmaxGradient(GradientContext& g) {
  const NodeOut d = g.Grad(0), y = g.Output(0);
  const NodeOut sum = g.Op("Sum", {g.Op("Mul", {d, y}), g.Const(Tensor::Scalar<int32_t>(-1))}, {{"keep_dims", true}});
  g.Set(0, g.Op("Mul", {g.Op("Sub", {d, sum}), y}));
  return g.status();
}

TROUPE_OP("Softmax")
    .Input("logits: T")
    .Output("softmax: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(SoftmaxShape)
    .Gradient(SoftmaxGradient)
    .Doc("exp(logits) / sum(exp(logits)) over the last dimension.");

absl::Status ComputeSoftmax(KernelContext& ctx) { return ComputeSoftmax(ctx, false); }
TROUPE_CPU_KERNEL("Softmax").Function<ComputeSoftmax>();

// y = x - log(sum(exp(x))): dx = dy - sum(dy) * exp(y).
absl::Status LogSoftmaxGradient(GradientContext& g) {
  const NodeOut d = g.Grad(0);
  const NodeOut sum = g.Op("Sum", {d, g.Const(Tensor::Scalar<int32_t>(-1))}, {{"keep_dims", true}});
  g.Set(0, g.Op("Sub", {d, g.Op("Mul", {sum, g.Op("Exp", {g.Output(0)})})}));
  return g.status();
}

TROUPE_OP("LogSoftmax")
    .Input("logits: T")
    .Output("logsoftmax: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(SoftmaxShape)
    .Gradient(LogSoftmaxGradient)
    .Doc("logits - log(sum(exp(logits))) over the last dimension.");

absl::Status ComputeLogSoftmax(KernelContext& ctx) { return ComputeSoftmax(ctx, true); }
TROUPE_CPU_KERNEL("LogSoftmax").Function<ComputeLogSoftmax>();

absl::Status SoftmaxCrossEntropyWithLogitsShape(InferenceContext& c) {
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

absl::Status SoftmaxCrossEntropyWithLogitsGradient(GradientContext& g) {
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
    .Shape(SoftmaxCrossEntropyWithLogitsShape)
    .Gradient(SoftmaxCrossEntropyWithLogitsGradient)
    .Doc(
        "For each row of the logits in features: the cross entropy between their softmax and the row of labels, and in "
        "backprop its gradient softmax(features) - labels. features and labels are matrices or broadcast to one.");

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

absl::Status ComputeSoftmaxCrossEntropyWithLogits(KernelContext& ctx) {
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

TROUPE_CPU_KERNEL("SoftmaxCrossEntropyWithLogits").Function<ComputeSoftmaxCrossEntropyWithLogits>();

absl::Status SparseSoftmaxCrossEntropyWithLogitsShape(InferenceContext& c) {
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
    .Shape(SparseSoftmaxCrossEntropyWithLogitsShape)
    .Gradient([](GradientContext& g) {
      if (const NodeOut d = LogitsGradient(g); d.valid()) g.Set(0, d);
      return g.status();
    })
    .Doc(
        "For each row of the logits in features: the cross entropy between their softmax and the class that labels "
        "names, and in backprop its "
        "gradient. A label outside of [0, number of classes) is an error.");

absl::Status ComputeSparseSoftmaxCrossEntropyWithLogits(KernelContext& ctx) {
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

TROUPE_CPU_KERNEL("SparseSoftmaxCrossEntropyWithLogits")
    .Type<int32_t, int64_t>("Tlabels")
    .Function<ComputeSparseSoftmaxCrossEntropyWithLogits>();

}  // namespace
}  // namespace troupe
