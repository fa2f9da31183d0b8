// BroadcastArgs: the shape that two shapes broadcast to.
#include <algorithm>

#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status BroadcastArgsShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape a, c.WithRank(0, 1));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape b, c.WithRank(1, 1));
  c.set_output(0, PartialTensorShape{a.dim(0) >= 0 && b.dim(0) >= 0 ? std::max(a.dim(0), b.dim(0)) : -1});
  return absl::OkStatus();
}

absl::Status ComputeBroadcastArgs(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const TensorShape a, ReadShape(ctx.input(0)));
  TROUPE_ASSIGN_OR_RETURN(const TensorShape b, ReadShape(ctx.input(1)));
  TROUPE_ASSIGN_OR_RETURN(const TensorShape both, BroadcastShapes(a, b));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({both.rank()})));
  return WriteInts(both.dims(), out);
}

TROUPE_OP("BroadcastArgs")
    .Input("s0: T")
    .Input("s1: T")
    .Output("r0: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(BroadcastArgsShape)
    .NotDifferentiable("shapes do not depend on values")
    .Doc("The shape to which the shapes `s0` and `s1` broadcast.");
TROUPE_KERNEL("BroadcastArgs").Device("CPU").Function<ComputeBroadcastArgs, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
