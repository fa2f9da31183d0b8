// TensorArrayScatterV3: one tensor as several elements.
#include "kernels/control/tensor_array.h"
#include "troupe/gradient_function.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status ScatterShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  TROUPE_RETURN_IF_ERROR(c.WithRankAtLeast(2, 1).status());
  return shape_fn::Scalar(c);
}

TROUPE_OP("TensorArrayScatterV3")
    .Input("handle: resource")
    .Input("indices: int32")
    .Input("value: T")
    .Input("flow_in: float")
    .Output("flow_out: float")
    .Attr("T: type")
    .Stateful()
    .Shape(ScatterShape)
    .Gradient([](GradientContext& g) {
      const control::GradientArray grad = control::GradientArrayOf(g, g.Grad(0));
      PartialTensorShape row;  // which an empty gather cannot see
      if (const PartialTensorShape value = g.InputShape(2); value.known_rank() && value.rank() > 0)
        row = PartialTensorShape(value.dims().subspan(1));
      g.Set(2, g.Op("TensorArrayGatherV3", {grad.handle, g.Input(1), grad.flow},
                    {{"dtype", g.input_type(2)}, {"element_shape", row}}));
      g.Set(3, g.Grad(0));
      return g.status();
    })
    .Doc("Sets the elements at `indices` to the rows of `value` along its dimension 0.");

absl::Status Scatter(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<control::TensorArray>(0));
  const Tensor &indices = ctx.input(1), &value = ctx.input(2);
  if (indices.rank() != 1)
    return InvalidArgument("indices must be a vector, but has shape ", indices.shape().DebugString());
  if (value.rank() < 1 || value.dim(0) != indices.num_elements()) {
    return InvalidArgument("value must have one row for each of the ", indices.num_elements(),
                           " indices, but has shape ", value.shape().DebugString());
  }
  TensorShape row = value.shape();
  row.RemoveDim(0);
  for (int64_t i = 0; i < value.dim(0); ++i) {
    // A row of its own buffer: elements are handed out to kernels that may write into what they own
    // alone.
    const Tensor view = value.Slice(i, i + 1);
    Tensor element = view.valid() ? view.Reshaped(row).Clone(ctx.allocator()) : Tensor();
    if (!element.valid()) return ResourceExhausted("no memory for an element of shape ", row.DebugString());
    TROUPE_RETURN_IF_ERROR(array->Write(indices.data<int32_t>()[i], std::move(element)));
  }
  ctx.set_output(0, ctx.TakeInput(3));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayScatterV3").Device("CPU").Function<Scatter>();

}  // namespace
}  // namespace troupe
