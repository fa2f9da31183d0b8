#include "kernels/common/as_float.h"
#include "kernels/common/isa.h"
#include "kernels/nn/softmax.h"
#include "kernels/nn/softmax_loops.h"

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

}  // namespace

absl::Status SoftmaxShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape logits, c.WithRankAtLeast(0, 1));
  c.set_output(0, std::move(logits));
  return absl::OkStatus();
}

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

}  // namespace troupe
