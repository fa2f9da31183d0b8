// BroadcastGradientArgs: over which dimensions the gradient of a broadcasting op has to be summed
// for each of its two inputs.
#include <algorithm>

#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status TwoVectors(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  c.set_output(0, PartialTensorShape{-1});
  c.set_output(1, PartialTensorShape{-1});
  return absl::OkStatus();
}

absl::Status ComputeBroadcastGradientArgs(KernelContext& ctx) {
  Ints shapes[2];
  for (int i = 0; i < 2; ++i) {
    if (ctx.input(i).rank() != 1)
      return InvalidArgument("input ", i, " must be a vector, got shape ", ctx.input(i).shape().DebugString());
    shapes[i] = ReadInts(ctx.input(i));
  }
  const auto& [a, b] = shapes;
  Ints reduce[2];
  // Equal shapes need no sum; otherwise a dimension of size 1 on both sides counts as broadcast, so
  // that keep-dims sums stay trivial.
  if (a != b) {
    const size_t rank = std::max(a.size(), b.size());
    for (size_t k = 0; k < rank; ++k) {
      const int64_t x = k + a.size() < rank ? 1 : a[k + a.size() - rank];
      const int64_t y = k + b.size() < rank ? 1 : b[k + b.size() - rank];
      if (x != y && x != 1 && y != 1) {
        return InvalidArgument("incompatible shapes: [", StrJoin(a, ","), "] vs. [", StrJoin(b, ","), "]");
      }
      if (x == 1) reduce[0].push_back(static_cast<int64_t>(k));
      if (y == 1) reduce[1].push_back(static_cast<int64_t>(k));
    }
  }
  for (int i = 0; i < 2; ++i) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(i, TensorShape({static_cast<int64_t>(reduce[i].size())})));
    TROUPE_RETURN_IF_ERROR(WriteInts(reduce[i], out));
  }
  return absl::OkStatus();
}

TROUPE_OP("BroadcastGradientArgs")
    .Input("s0: T")
    .Input("s1: T")
    .Output("r0: T")
    .Output("r1: T")
    .Attr("T: {int32, int64} = DT_INT32")
    .Shape(TwoVectors)
    .NotDifferentiable("shapes do not depend on values")
    .Doc(
        "For two shapes that broadcast, the dimensions over which a gradient of the broadcast shape is summed to fit "
        "each of them.");
TROUPE_KERNEL("BroadcastGradientArgs").Device("CPU").Function<ComputeBroadcastGradientArgs, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
