// BatchToSpaceND and BatchToSpace: entries of the batch become blocks of space again
// (space_batch.h).
#include "kernels/array/space_batch.h"
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status BatchToSpaceNDShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape blocks, c.WithRank(1, 1));
  TROUPE_RETURN_IF_ERROR(c.WithRank(2, 2).status());
  const Tensor* t = c.input_tensor(1);
  const Ints block = t ? ReadInts(*t) : Ints();
  return MovedShape(c, c.input(0), t ? &block : nullptr, c.input_tensor(2), static_cast<int>(blocks.dim(0)), false);
}
absl::Status BatchToSpaceShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRank(0, 4));
  TROUPE_ASSIGN_OR_RETURN(const int64_t size, c.Attr<int64_t>("block_size"));
  const Ints block(2, size);
  return MovedShape(c, in, &block, c.input_tensor(1), 2, false);
}

absl::Status BatchToSpaceNDGradient(GradientContext& g) {
  g.Set(0, g.Op("SpaceToBatchND", {g.Grad(0), g.Input(1), g.Input(2)}));
  return g.status();
}
absl::Status BatchToSpaceGradient(GradientContext& g) {
  g.Set(0, g.Op("SpaceToBatch", {g.Grad(0), g.Input(1)}, {{"block_size", g.Attr<int64_t>("block_size")}}));
  return g.status();
}

absl::Status ComputeBatchToSpaceND(KernelContext& ctx) {
  if (ctx.input(1).rank() != 1)
    return InvalidArgument("block_shape must be a vector, got shape ", ctx.input(1).shape().DebugString());
  return MoveSpace(ctx, ctx.input(0), ReadInts(ctx.input(1)), ctx.input(2), false);
}

class BatchToSpaceKernel {
 public:
  explicit BatchToSpaceKernel(KernelInit& init) : block_(2, init.Attr<int64_t>("block_size")) {}
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 4) return InvalidArgument("input rank should be 4 instead of ", ctx.input(0).rank());
    return MoveSpace(ctx, ctx.input(0), block_, ctx.input(1), false);
  }

 private:
  Ints block_;
};

TROUPE_OP("BatchToSpaceND")
    .Input("input: T")
    .Input("block_shape: Tblock_shape")
    .Input("crops: Tcrops")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tblock_shape: {int32, int64} = DT_INT32")
    .Attr("Tcrops: {int32, int64} = DT_INT32")
    .Shape(BatchToSpaceNDShape)
    .Gradient(BatchToSpaceNDGradient)
    .Doc(
        "The inverse of SpaceToBatchND: the batch dimension gives the positions inside blocks of `block_shape`, and "
        "`crops` are cut off the space.");
TROUPE_KERNEL("BatchToSpaceND")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("block_shape")
    .HostMemory("crops")
    .Function<ComputeBatchToSpaceND>();

TROUPE_OP("BatchToSpace")
    .Input("input: T")
    .Input("crops: Tidx")
    .Output("output: T")
    .Attr("T: type")
    .Attr("block_size: int >= 2")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(BatchToSpaceShape)
    .Gradient(BatchToSpaceGradient)
    .Doc("BatchToSpaceND of a [batch, height, width, depth] value with square blocks.");
TROUPE_KERNEL("BatchToSpace").Device("CPU").Types("T", MovableTypes()).HostMemory("crops").Class<BatchToSpaceKernel>();

}  // namespace
}  // namespace troupe::array
