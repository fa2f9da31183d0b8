// SpaceToBatchND and SpaceToBatch: blocks of space become entries of the batch (space_batch.h), so
// that a dilated convolution becomes a plain one.
#include "kernels/array/space_batch.h"
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status SpaceToBatchNDShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape blocks, c.WithRank(1, 1));
  TROUPE_RETURN_IF_ERROR(c.WithRank(2, 2).status());
  const Tensor* t = c.input_tensor(1);
  const Ints block = t ? ReadInts(*t) : Ints();
  return MovedShape(c, c.input(0), t ? &block : nullptr, c.input_tensor(2), static_cast<int>(blocks.dim(0)), true);
}
absl::Status SpaceToBatchShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRank(0, 4));
  TROUPE_ASSIGN_OR_RETURN(const int64_t size, c.Attr<int64_t>("block_size"));
  const Ints block(2, size);
  return MovedShape(c, in, &block, c.input_tensor(1), 2, true);
}

absl::Status SpaceToBatchNDGradient(GradientContext& g) {
  g.Set(0, g.Op("BatchToSpaceND", {g.Grad(0), g.Input(1), g.Input(2)}));
  return g.status();
}
absl::Status SpaceToBatchGradient(GradientContext& g) {
  g.Set(0, g.Op("BatchToSpace", {g.Grad(0), g.Input(1)}, {{"block_size", g.Attr<int64_t>("block_size")}}));
  return g.status();
}

absl::Status ComputeSpaceToBatchND(KernelContext& ctx) {
  if (ctx.input(1).rank() != 1)
    return InvalidArgument("block_shape must be a vector, got shape ", ctx.input(1).shape().DebugString());
  return MoveSpace(ctx, ctx.input(0), ReadInts(ctx.input(1)), ctx.input(2), true);
}

class SpaceToBatchKernel {
 public:
  explicit SpaceToBatchKernel(KernelInit& init) : block_(2, init.Attr<int64_t>("block_size")) {}
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 4) return InvalidArgument("input rank should be 4 instead of ", ctx.input(0).rank());
    return MoveSpace(ctx, ctx.input(0), block_, ctx.input(1), true);
  }

 private:
  Ints block_;
};

TROUPE_OP("SpaceToBatchND")
    .Input("input: T")
    .Input("block_shape: Tblock_shape")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tblock_shape: {int32, int64} = DT_INT32")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(SpaceToBatchNDShape)
    .Gradient(SpaceToBatchNDGradient)
    .Doc(
        "`input` with its dimensions 1 to M padded by `paddings` with zeros, cut into blocks of `block_shape`, and the "
        "position inside the block moved into\n"
        "the batch dimension.");
TROUPE_KERNEL("SpaceToBatchND")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("block_shape")
    .HostMemory("paddings")
    .Function<ComputeSpaceToBatchND>();

TROUPE_OP("SpaceToBatch")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("block_size: int >= 2")
    .Shape(SpaceToBatchShape)
    .Gradient(SpaceToBatchGradient)
    .Doc("SpaceToBatchND of a [batch, height, width, depth] value with square blocks.");
TROUPE_KERNEL("SpaceToBatch")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("paddings")
    .Class<SpaceToBatchKernel>();

}  // namespace
}  // namespace troupe::array
