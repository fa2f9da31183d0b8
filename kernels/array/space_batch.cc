// Moving blocks of space into the batch dimension and back: SpaceToBatchND, BatchToSpaceND and
// their two-dimensional forms. A dilated convolution becomes a plain one by it.
//
// For input [batch, space..., rest...] with M blocked dimensions: SpaceToBatch pads the space, cuts
// it into blocks of block_shape and moves the position inside the block to the front of batch:
// [prod(block) * batch, padded / block..., rest...]. BatchToSpace is the inverse and crops what was
// padded.
#include <algorithm>

#include "kernels/common/elements.h"
#include "kernels/common/int_args.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"
#include "troupe/kernel.h"

namespace troupe::array {
namespace {

// The size of a blocked dimension after the move.
absl::StatusOr<int64_t> Moved(int i, int64_t dim, int64_t block, int64_t before, int64_t after, bool to_batch) {
  if (block < 1) return InvalidArgument("block_shape[", i, "] must be positive, got ", block);
  if (before < 0 || after < 0) {
    return InvalidArgument(to_batch ? "paddings" : "crops", " must be non-negative: dimension ", i, " has ", before,
                           " and ", after);
  }
  if (to_batch) {
    const int64_t padded = dim + before + after;
    if (padded % block != 0)
      return InvalidArgument("padded_shape[", i, "]=", padded, " is not divisible by block_shape[", i, "]=", block);
    return padded / block;
  }
  const int64_t full = MultiplyWithoutOverflow(dim, block);
  if (full < 0 || full < before + after)
    return InvalidArgument("cropped_shape[", i, "]=", full - before - after, " must be non-negative");
  return full - before - after;
}

// `borders` is the matrix [M, 2] of paddings (to_batch) or crops.
absl::Status MoveSpace(KernelContext& ctx, const Tensor& in, absl::Span<const int64_t> block, const Tensor& borders,
                       bool to_batch) {
  const int m = static_cast<int>(block.size());
  if (borders.rank() != 2 || borders.dim(0) != m || borders.dim(1) != 2) {
    return InvalidArgument(to_batch ? "paddings" : "crops", " must be a matrix [", m, ",2], got shape ",
                           borders.shape().DebugString());
  }
  if (in.rank() < 1 + m) return InvalidArgument("input rank should be >= ", 1 + m, " instead of ", in.rank());
  TensorShape shape = in.shape();
  int64_t blocks = 1;
  for (int i = 0; i < m; ++i) {
    const auto k = static_cast<size_t>(i);
    TROUPE_ASSIGN_OR_RETURN(const int64_t size, Moved(i, in.dim(i + 1), block[k], IntAt(borders, 2 * i),
                                                      IntAt(borders, 2 * i + 1), to_batch));
    shape.set_dim(i + 1, size);
    blocks = MultiplyWithoutOverflow(blocks, block[k]);
    if (blocks < 0) return InvalidArgument("the product of block_shape is too big");
  }
  if (!to_batch && in.dim(0) % blocks != 0) {
    return InvalidArgument("input batch dimension (", in.dim(0),
                           ") is not divisible by the product of the block sizes (", blocks, ")");
  }
  const int64_t batch = to_batch ? in.dim(0) : in.dim(0) / blocks;
  shape.set_dim(0, to_batch ? MultiplyWithoutOverflow(batch, blocks) : batch);
  TROUPE_ASSIGN_OR_RETURN(const TensorShape checked, TensorShape::Make(shape.dims()));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, checked));
  if (out->num_elements() == 0) return absl::OkStatus();
  if (to_batch) ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
  if (in.num_elements() == 0) return absl::OkStatus();

  // In both directions: "space" is the side with the whole space, "batch" the side with the blocks
  // taken apart. For each position p inside the block, the cells q for which p + q * block - before
  // lies inside the space are one box on both sides.
  const TensorShape space_shape = to_batch ? in.shape() : checked, batch_shape = to_batch ? checked : in.shape();
  const Strides space = DenseStrides(space_shape.dims()), packed = DenseStrides(batch_shape.dims());
  for (int64_t p = 0; p < blocks; ++p) {
    StridedCopy copy;
    int64_t space_offset = 0, packed_offset = p * batch * packed[0], rest = p;
    auto add = [&](int64_t size, int64_t space_stride, int64_t packed_stride) {
      if (to_batch)
        copy.Add(size, packed_stride, space_stride);
      else
        copy.Add(size, space_stride, packed_stride);
    };
    Ints position(static_cast<size_t>(m));
    for (int i = m - 1; i >= 0; --i) {
      position[static_cast<size_t>(i)] = rest % block[static_cast<size_t>(i)];
      rest /= block[static_cast<size_t>(i)];
    }
    add(batch, space[0], packed[0]);
    for (int i = 0; i < m; ++i) {
      const auto k = static_cast<size_t>(i);
      const int64_t b = block[k], before = IntAt(borders, 2 * i), size = space_shape.dim(i + 1),
                    cells = batch_shape.dim(i + 1);
      // The first cell whose place in the space, position + q * b - before, is not negative, and
      // the one behind the last that is inside.
      const int64_t first = std::max<int64_t>(0, (before - position[k] + b - 1) / b);
      const int64_t behind =
          std::clamp<int64_t>((size + before - position[k] + b - 1) / b, first, std::max(first, cells));
      add(behind - first, space[k + 1] * b, packed[k + 1]);
      space_offset += (position[k] + first * b - before) * space[k + 1];
      packed_offset += first * packed[k + 1];
    }
    for (int i = m + 1; i < in.rank(); ++i)
      add(in.dim(i), space[static_cast<size_t>(i)], packed[static_cast<size_t>(i)]);
    copy.src_offset = to_batch ? space_offset : packed_offset;
    copy.dst_offset = to_batch ? packed_offset : space_offset;
    copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  }
  return absl::OkStatus();
}

// The same for shapes; `block` and `borders` may be null when not known, then M must be given.
absl::Status MovedShape(InferenceContext& c, const PartialTensorShape& in, const Ints* block, const Tensor* borders,
                        int num_blocked, bool to_batch) {
  if (!in.known_rank()) return shape_fn::Unknown(c);
  if (num_blocked >= 0 && in.rank() < 1 + num_blocked)
    return InvalidArgument("input rank should be >= ", 1 + num_blocked, " instead of ", in.rank());
  PartialTensorShape out = PartialTensorShape::OfRank(in.rank());
  if (num_blocked < 0) {
    c.set_output(0, out);
    return absl::OkStatus();
  }
  for (int i = num_blocked + 1; i < in.rank(); ++i) out.set_dim(i, in.dim(i));
  if (block != nullptr) {
    int64_t blocks = 1;
    for (int64_t b : *block) blocks *= b;
    if (in.dim(0) >= 0 && !to_batch && (blocks <= 0 || in.dim(0) % blocks != 0)) {
      return InvalidArgument("input batch dimension (", in.dim(0),
                             ") is not divisible by the product of the block sizes (", blocks, ")");
    }
    if (in.dim(0) >= 0) out.set_dim(0, to_batch ? in.dim(0) * blocks : in.dim(0) / blocks);
    for (int i = 0; i < num_blocked && borders != nullptr && borders->num_elements() == 2 * num_blocked; ++i) {
      if (in.dim(i + 1) < 0) continue;
      TROUPE_ASSIGN_OR_RETURN(const int64_t size, Moved(i, in.dim(i + 1), (*block)[static_cast<size_t>(i)],
                                                        IntAt(*borders, 2 * i), IntAt(*borders, 2 * i + 1), to_batch));
      out.set_dim(i + 1, size);
    }
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

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
