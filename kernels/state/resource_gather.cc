// ResourceGather and ResourceGatherNd: rows and slices of a variable, without a copy of the rest.
#include <algorithm>

#include "kernels/common/slices.h"
#include "kernels/state/handle_shapes.h"
#include "kernels/state/scatter_rows.h"
#include "kernels/state/variable_access.h"
#include "troupe/gradient_function.h"

namespace troupe::state {
namespace {

absl::Status ResourceGatherShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(CheckHandleType(c));
  TROUPE_ASSIGN_OR_RETURN(int64_t batch, c.Attr<int64_t>("batch_dims"));
  const PartialTensorShape var = NamedShape(c), &indices = c.input(1);
  if (!var.known_rank() || !indices.known_rank()) return absl::OkStatus();
  if (batch < 0) batch += indices.rank();
  if (batch < 0 || batch > indices.rank() || batch >= var.rank()) {
    return InvalidArgument("batch_dims = ", batch, " does not fit a variable of shape ", var.DebugString(),
                           " and indices ", indices.DebugString());
  }
  PartialTensorShape out = indices;
  for (int d = static_cast<int>(batch) + 1; d < var.rank(); ++d) out.AddDim(var.dim(d));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

// The gradient of the whole variable: rows that were gathered get what arrives, summed where a row
// was gathered twice.
absl::Status ResourceGatherGrad(GradientContext& g) {
  if (g.Attr<int64_t>("batch_dims") != 0)
    return Unimplemented("there is no gradient of ResourceGather with batch_dims");
  const NodeOut shape = g.Op("VariableShape", {g.Input(0)}, {{"out_type", g.input_type(1)}});
  g.Set(0, RowsGradient(g, g.Grad(0), g.Input(1), shape, {}));
  return g.status();
}

TROUPE_OP("ResourceGather")
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Output("output: dtype")
    .Attr("batch_dims: int = 0")
    .Attr("validate_indices: bool = true")
    .Attr("dtype: type")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Shape(ResourceGatherShape)
    .Gradient(ResourceGatherGrad)
    .Doc(
        "The rows of the variable that `indices` name, in the shape of the indices; with `batch_dims` = B, rows of "
        "var[b1, ..., bB] for indices[b1, ..., bB].");

class ResourceGatherKernel {
 public:
  explicit ResourceGatherKernel(KernelInit& init)
      : dtype_(init.Attr<DType>("dtype")), batch_dims_(init.Attr<int64_t>("batch_dims")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, dtype_));
    TROUPE_ASSIGN_OR_RETURN(const Tensor value, ReadVariable(ctx, slot));
    const Tensor& indices = ctx.input(1);
    int64_t batch = batch_dims_;
    if (batch < 0) batch += indices.rank();
    if (batch < 0 || batch > indices.rank() || batch >= value.rank()) {
      return InvalidArgument("batch_dims = ", batch_dims_, " does not fit variable '", slot->name(), "' of shape ",
                             value.shape().DebugString(), " and indices of shape ", indices.shape().DebugString());
    }
    int64_t outer = 1, row_elements = 1;
    for (int d = 0; d < batch; ++d) {
      if (indices.dim(d) != value.dim(d)) {
        return InvalidArgument("batch dimension ", d, " of the indices is ", indices.dim(d), ", of variable '",
                               slot->name(), "' ", value.dim(d));
      }
      outer *= value.dim(d);
    }
    TensorShape shape = indices.shape();
    const int64_t limit = value.dim(static_cast<int>(batch));
    for (int d = static_cast<int>(batch) + 1; d < value.rank(); ++d) {
      row_elements *= value.dim(d);
      shape.AddDim(value.dim(d));
    }
    TROUPE_ASSIGN_OR_RETURN(std::vector<int64_t> rows, CheckedRows(indices, limit));
    if (batch > 0 && outer > 0) {
      const int64_t per_batch = static_cast<int64_t>(rows.size()) / outer;
      for (size_t i = 0; i < rows.size(); ++i) rows[i] += static_cast<int64_t>(i) / per_batch * limit;
    }
    return GatherRows(ctx, value, rows, row_elements, shape);
  }

 private:
  const DType dtype_;
  const int64_t batch_dims_;
};
TROUPE_KERNEL("ResourceGather").Device("CPU").Class<ResourceGatherKernel>();

absl::Status ResourceGatherNdShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(CheckHandleType(c));
  const PartialTensorShape var = NamedShape(c);
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape indices, c.WithRankAtLeast(1, 1));
  if (!var.known_rank() || !indices.known_rank() || indices.dim(indices.rank() - 1) < 0) return absl::OkStatus();
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > var.rank())
    return InvalidArgument("indices of length ", depth, " do not fit a variable of shape ", var.DebugString());
  PartialTensorShape out(indices.dims().subspan(0, indices.rank() - 1));
  for (int d = static_cast<int>(depth); d < var.rank(); ++d) out.AddDim(var.dim(d));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

TROUPE_OP("ResourceGatherNd")
    .Input("resource: resource")
    .Input("indices: Tindices")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("Tindices: {int32, int64}")
    .Stateful()
    .Trait(OpTrait::kNoEffect)
    .Shape(ResourceGatherNdShape)
    .Gradient([](GradientContext& g) {
      const NodeOut shape = g.Op("VariableShape", {g.Input(0)}, {{"out_type", g.input_type(1)}});
      g.Set(0, g.Op("ScatterNd", {g.Input(1), g.Grad(0), shape}));
      return g.status();
    })
    .Doc("The slices var[indices[..., 0], ..., indices[..., K-1]] of the variable.");

absl::Status ComputeResourceGatherNd(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, ctx.output_type(0)));
  TROUPE_ASSIGN_OR_RETURN(const Tensor value, ReadVariable(ctx, slot));
  const Tensor& indices = ctx.input(1);
  if (indices.rank() < 1) return InvalidArgument("indices must have at least one dimension");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > value.rank()) {
    return InvalidArgument("indices of length ", depth, " do not fit variable '", slot->name(), "' of shape ",
                           value.shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int64_t> rows, CheckedSlices(indices, value.shape(), /*skip_bad=*/false));
  TensorShape shape = indices.shape();
  shape.RemoveDim(shape.rank() - 1);
  int64_t row_elements = 1;
  for (int d = static_cast<int>(depth); d < value.rank(); ++d) {
    row_elements *= value.dim(d);
    shape.AddDim(value.dim(d));
  }
  return GatherRows(ctx, value, rows, row_elements, shape);
}
TROUPE_KERNEL("ResourceGatherNd").Device("CPU").Function<ComputeResourceGatherNd>();

}  // namespace
}  // namespace troupe::state
