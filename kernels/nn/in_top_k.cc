// InTopK and InTopKV2 (k as an input): is the right class among the k most likely ones?
#include <cmath>

#include "kernels/common/types.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status InTopKShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape predictions, c.WithRank(0, 2));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape targets, c.WithRank(1, 1));
  TROUPE_ASSIGN_OR_RETURN(int64_t rows, MergeDims(predictions.dim(0), targets.dim(0)));
  c.set_output(0, {rows});
  return absl::OkStatus();
}

// output[i] = whether fewer than k predictions of row i are larger than that of its target. False
// when the target is out of range, or a prediction that matters is not finite.
absl::Status ComputeInTopK(KernelContext& ctx, int64_t k) {
  const Tensor &predictions = ctx.input(0), &targets = ctx.input(1);
  if (predictions.rank() != 2)
    return InvalidArgument("predictions must be 2-dimensional: ", predictions.shape().DebugString());
  if (targets.rank() != 1) return InvalidArgument("targets must be 1-dimensional: ", targets.shape().DebugString());
  const int64_t rows = predictions.dim(0), columns = predictions.dim(1);
  if (targets.dim(0) != rows) {
    return InvalidArgument("First dimension of predictions ", rows, " must match length of targets ", targets.dim(0));
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({rows})));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t target = targets.dtype() == DType::kInt32 ? targets.data<int32_t>()[r] : targets.data<int64_t>()[r];
    const float* row = predictions.data<float>() + r * columns;
    bool in = target >= 0 && target < columns && std::isfinite(row[target]);
    int64_t larger = 0;
    for (int64_t c = 0; in && c < columns; ++c) {
      if (!std::isfinite(row[c])) {
        in = false;
      } else if (row[c] > row[target] && ++larger >= k) {
        break;
      }
    }
    out->data<bool>()[r] = in && larger < k;
  }
  return absl::OkStatus();
}

TROUPE_OP("InTopK")
    .Input("predictions: float")
    .Input("targets: T")
    .Output("precision: bool")
    .Attr("k: int")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(InTopKShape)
    .NotDifferentiable("its output is boolean")
    .Doc(
        "For each row of predictions: whether the class targets names is among the k with the largest predictions; "
        "ties count as in. False when the "
        "target is out of range or the predictions are not finite.");

class InTopKKernel {
 public:
  explicit InTopKKernel(KernelInit& init) : k_(init.Attr<int64_t>("k")) {}
  absl::Status Compute(KernelContext& ctx) { return ComputeInTopK(ctx, k_); }

 private:
  const int64_t k_;
};
TROUPE_CPU_KERNEL("InTopK").Class<InTopKKernel>();

TROUPE_OP("InTopKV2")
    .Input("predictions: float")
    .Input("targets: T")
    .Input("k: T")
    .Output("precision: bool")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(InTopKShape)
    .NotDifferentiable("its output is boolean")
    .Doc("As InTopK, with k as an input.");

absl::Status ComputeInTopKV2(KernelContext& ctx) {
  const Tensor& k = ctx.input(2);
  if (k.rank() != 0) return InvalidArgument("k must be a scalar, but its shape is ", k.shape().DebugString());
  return ComputeInTopK(ctx, k.dtype() == DType::kInt32 ? k.scalar<int32_t>() : k.scalar<int64_t>());
}
TROUPE_CPU_KERNEL("InTopKV2").Function<ComputeInTopKV2>();

}  // namespace
}  // namespace troupe
