// ExpandDims: a dimension of size 1 more.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::StatusOr<int> Position(int64_t dim, int rank) {
  if (dim < -1 - rank || dim > rank)
    return InvalidArgument("tried to expand dim index ", dim, " for a tensor with ", rank, " dimensions");
  return static_cast<int>(dim < 0 ? dim + rank + 1 : dim);
}

absl::Status ExpandDimsShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const KnownInt dim, ConstantScalar(c, 1, "dim"));
  const PartialTensorShape& in = c.input(0);
  if (!in.known_rank()) return shape_fn::Unknown(c);
  if (!dim.known) {
    c.set_output(0, PartialTensorShape::OfRank(in.rank() + 1));
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(const int at, Position(dim.value, in.rank()));
  Ints dims(in.dims().begin(), in.dims().end());
  dims.insert(dims.begin() + at, 1);
  c.set_output(0, PartialTensorShape(absl::MakeConstSpan(dims)));
  return absl::OkStatus();
}

absl::Status ComputeExpandDims(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t dim, ReadScalar(ctx.input(1), "dim"));
  TensorShape shape = ctx.input(0).shape();
  TROUPE_ASSIGN_OR_RETURN(const int at, Position(dim, shape.rank()));
  shape.InsertDim(at, 1);
  return PassOnReshaped(ctx, shape);
}

TROUPE_OP("ExpandDims")
    .Input("input: T")
    .Input("dim: Tdim")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tdim: {int32, int64} = DT_INT32")
    .Shape(ExpandDimsShape)
    .Trait(OpTrait::kSharesInput)
    .Gradient(ReshapedGradient)
    .Doc(
        "`input` with a dimension of size 1 put in before dimension `dim`; a negative `dim` counts from the end, -1 "
        "appends.");
TROUPE_KERNEL("ExpandDims").Device("CPU").HostMemory("dim").Function<ComputeExpandDims, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
