// ConcatOffset: where each of several values begins in their concatenation.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status ConcatOffsetShape(InferenceContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) c.set_output(i - 1, c.input(i));
  return absl::OkStatus();
}

absl::Status ComputeConcatOffset(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t dim, ReadScalar(ctx.input(0), "concat_dim"));
  const Tensor& first = ctx.input(1);
  if (first.rank() != 1) return InvalidArgument("input 1 must be a vector, got shape ", first.shape().DebugString());
  const Ints shape0 = ReadInts(first);
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(dim, static_cast<int>(shape0.size()), "concat_dim"));
  Ints offset(shape0.size(), 0);
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    const Tensor& in = ctx.input(i);
    if (in.rank() != 1 || in.num_elements() != first.num_elements()) {
      return InvalidArgument("input ", i, " must be a vector of ", shape0.size(), " sizes, got shape ",
                             in.shape().DebugString());
    }
    const Ints shape = ReadInts(in);
    for (size_t k = 0; k < shape.size(); ++k) {
      if (static_cast<int>(k) != axis && shape[k] != shape0[k]) {
        return InvalidArgument("all dimensions except ", axis, " must match; input ", i, " has shape [",
                               StrJoin(shape, ","), "] and doesn't match input 1 with shape [", StrJoin(shape0, ","),
                               "]");
      }
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(i - 1, in.shape()));
    TROUPE_RETURN_IF_ERROR(WriteInts(offset, out));
    offset[static_cast<size_t>(axis)] += shape[static_cast<size_t>(axis)];
  }
  return absl::OkStatus();
}

TROUPE_OP("ConcatOffset")
    .Input("concat_dim: int32")
    .Input("shape: N * shape_type")
    .Output("offset: N * shape_type")
    .Attr("N: int >= 2")
    .Attr("shape_type: {int32, int64} = DT_INT32")
    .Shape(ConcatOffsetShape)
    .NotDifferentiable("shapes do not depend on values")
    .Doc(
        "For N values of these shapes that are concatenated along `concat_dim`: the index in the result at which each "
        "begins.");
TROUPE_KERNEL("ConcatOffset").Device("CPU").Function<ComputeConcatOffset, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
