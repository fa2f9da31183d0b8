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
  for (int i = 0; i < 2; ++i) {
    if (ctx.input(i).rank() != 1)
      return InvalidArgument("s", i, " must be a vector, got shape ", ctx.input(i).shape().DebugString());
  }
  const Ints a = ReadInts(ctx.input(0)), b = ReadInts(ctx.input(1));
  Ints both(std::max(a.size(), b.size()), 1);
  for (size_t i = 1; i <= both.size(); ++i) {  // from the last dimension on
    const int64_t da = i <= a.size() ? a[a.size() - i] : 1, db = i <= b.size() ? b[b.size() - i] : 1;
    if (da != db && da != 1 && db != 1)
      return InvalidArgument("Incompatible shapes: [", StrJoin(a, ","), "] vs. [", StrJoin(b, ","), "]");
    both[both.size() - i] = da == 1 ? db : da;
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({static_cast<int64_t>(both.size())})));
  return WriteInts(both, out);
}

TROUPE_OP("BroadcastArgs")
    .Input("s0: T")
    .Input("s1: T")
    .Output("r0: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(BroadcastArgsShape)
    .NotDifferentiable("shapes do not depend on values")
    .Doc(
        "The shape to which the shapes `s0` and `s1` broadcast. Their numbers need not be sizes: -1 counts as any "
        "other.");
TROUPE_KERNEL("BroadcastArgs").Device("CPU").Function<ComputeBroadcastArgs, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
