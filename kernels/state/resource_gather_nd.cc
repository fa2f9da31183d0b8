// ResourceGatherNd: slices of a variable, without a copy of the rest.
#include "kernels/state/handle_shapes.h"
#include "kernels/state/scatter_rows.h"
#include "troupe/gradient_function.h"

namespace troupe {
namespace {

absl::Status ResourceGatherNdShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(state::CheckHandleType(c));
  const PartialTensorShape var = state::NamedShape(c);
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
    .Shape(ResourceGatherNdShape)
    .Gradient([](GradientContext& g) {
      const NodeOut shape = g.Op("VariableShape", {g.Input(0)}, {{"out_type", g.input_type(1)}});
      g.Set(0, g.Op("ScatterNd", {g.Input(1), g.Grad(0), shape}));
      return g.status();
    })
    .Doc("The slices var[indices[..., 0], ..., indices[..., K-1]] of the variable.");

absl::Status ComputeResourceGatherNd(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, state::Slot(ctx, 0, ctx.output_type(0)));
  TROUPE_ASSIGN_OR_RETURN(const Tensor value, slot->Read());
  const Tensor& indices = ctx.input(1);
  if (indices.rank() < 1) return InvalidArgument("indices must have at least one dimension");
  const int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > value.rank()) {
    return InvalidArgument("indices of length ", depth, " do not fit variable '", slot->name(), "' of shape ",
                           value.shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int64_t> rows,
                          state::CheckedSlices(indices, value.shape(), /*skip_bad=*/false));
  TensorShape shape = indices.shape();
  shape.RemoveDim(shape.rank() - 1);
  int64_t row_elements = 1;
  for (int d = static_cast<int>(depth); d < value.rank(); ++d) {
    row_elements *= value.dim(d);
    shape.AddDim(value.dim(d));
  }
  return state::GatherRows(ctx, value, rows, row_elements, shape);
}
TROUPE_KERNEL("ResourceGatherNd").Device("CPU").Function<ComputeResourceGatherNd>();

}  // namespace
}  // namespace troupe
