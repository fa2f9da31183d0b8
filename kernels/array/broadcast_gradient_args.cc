// BroadcastGradientArgs: over which dimensions the gradient of a broadcasting op has to be summed
// for each of its two inputs.
#include "graph/core/summed_dimensions.h"
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
  const auto summed = SummedDimensions({shapes[0].begin(), shapes[0].end()}, {shapes[1].begin(), shapes[1].end()});
  if (!summed) {
    return InvalidArgument("incompatible shapes: [", StrJoin(shapes[0], ","), "] vs. [", StrJoin(shapes[1], ","), "]");
  }
  for (int i = 0; i < 2; ++i) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * out,
                            ctx.AllocateOutput(i, TensorShape({static_cast<int64_t>((*summed)[i].size())})));
    TROUPE_RETURN_IF_ERROR(WriteInts((*summed)[i], out));
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
