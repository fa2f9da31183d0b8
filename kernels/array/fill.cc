// Fill: one value everywhere.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status FillShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, c.InputAsShape(0));
  c.set_output(0, std::move(shape));
  return absl::OkStatus();
}

absl::Status FillGradient(GradientContext& g) {
  const NodeOut all = g.Op("Range", {Int(g, 0), g.Op("Rank", {g.Grad(0)}), Int(g, 1)});
  g.Set(1, g.Op("Sum", {g.Grad(0), all}));
  return g.status();
}

absl::Status ComputeFill(KernelContext& ctx) {
  const Tensor& dims = ctx.input(0);
  const Tensor& value = ctx.input(1);
  // A scalar stands for a vector of one size, a vector of one value for a scalar: old graphs have
  // them.
  if (dims.rank() > 1) return InvalidArgument("dims must be a vector, got shape ", dims.shape().DebugString());
  if (value.rank() > 1 || value.num_elements() != 1)
    return InvalidArgument("value must be a scalar, got shape ", value.shape().DebugString());
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(ReadInts(dims)));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  FillElements(ctx.threads(), out->dtype(), out->raw(), value.raw(), out->num_elements());
  return absl::OkStatus();
}

TROUPE_OP("Fill")
    .Input("dims: index_type")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("index_type: {int32, int64} = DT_INT32")
    .Shape(FillShape)
    .Gradient(FillGradient)
    .Doc("A tensor of shape `dims` with every element equal to the scalar `value`.");
TROUPE_KERNEL("Fill").Device("CPU").Types("T", MovableTypes()).HostMemory("dims").Function<ComputeFill>();

}  // namespace
}  // namespace troupe::array
