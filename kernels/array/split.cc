// Split: a value cut into equal pieces along a dimension. SplitV: into pieces of given sizes, one
// of which may be -1 (the rest).
//
// Pieces that are whole, aligned rows of the buffer are handed out as slices of it; the others are
// copied.
#include "kernels/array/share_rows.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status SplitShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const KnownInt dim, ConstantScalar(c, 0, "split_dim"));
  PartialTensorShape piece = c.input(1);
  if (piece.known_rank()) {
    TROUPE_ASSIGN_OR_RETURN(piece, c.WithRankAtLeast(1, 1));
    if (!dim.known) {
      piece = PartialTensorShape::OfRank(piece.rank());
    } else {
      TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(dim.value, piece.rank(), "split_dim"));
      if (piece.dim(axis) >= 0) {
        if (piece.dim(axis) % c.num_outputs() != 0) {
          return InvalidArgument("number of ways to split should evenly divide the split dimension, but dimension ",
                                 axis, " of ", piece.DebugString(), " is not divisible by ", c.num_outputs());
        }
        piece.set_dim(axis, piece.dim(axis) / c.num_outputs());
      }
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, piece);
  return absl::OkStatus();
}

absl::Status SplitVShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  TROUPE_ASSIGN_OR_RETURN(const KnownInt dim, ConstantScalar(c, 2, "split_dim"));
  const PartialTensorShape& in = c.input(0);
  if (!in.known_rank()) return shape_fn::Unknown(c);
  if (c.num_outputs() == 1) {
    c.set_output(0, in);
    return absl::OkStatus();
  }
  if (!dim.known) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialTensorShape::OfRank(in.rank()));
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(dim.value, in.rank(), "split_dim"));
  Ints sizes(static_cast<size_t>(c.num_outputs()), -1);
  if (const Tensor* t = c.input_tensor(1)) {
    if (t->num_elements() != c.num_outputs()) {
      return InvalidArgument("size_splits has ", t->num_elements(), " elements for ", c.num_outputs(), " outputs");
    }
    sizes = ReadInts(*t);
    int64_t sum = 0;
    int rest = -1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] < 0)
        rest = static_cast<int>(i);
      else
        sum += sizes[i];
    }
    if (in.dim(axis) >= 0) {
      if (rest >= 0 ? sum > in.dim(axis) : sum != in.dim(axis)) {
        return InvalidArgument("the sizes in size_splits add up to ", sum, ", but dimension ", axis, " is ",
                               in.dim(axis));
      }
      if (rest >= 0) sizes[static_cast<size_t>(rest)] = in.dim(axis) - sum;
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    PartialTensorShape piece = in;
    piece.set_dim(axis, sizes[static_cast<size_t>(i)] < 0 ? -1 : sizes[static_cast<size_t>(i)]);
    c.set_output(i, piece);
  }
  return absl::OkStatus();
}

// Writes pieces of these sizes of input `value` along `axis` to the outputs. The sizes add up.
absl::Status Cut(KernelContext& ctx, int value, int axis, absl::Span<const int64_t> sizes) {
  if (sizes.size() == 1) {
    ctx.set_output(0, ctx.TakeInput(value));
    return absl::OkStatus();
  }
  const Tensor& in = ctx.input(value);
  int64_t inner = 1, outer = 1;
  for (int k = 0; k < axis; ++k) outer *= in.dim(k);
  for (int k = axis + 1; k < in.rank(); ++k) inner *= in.dim(k);
  bool share = axis == 0;
  for (size_t i = 0; i + 1 < sizes.size() && share; ++i) share = RowsAreAligned(in, sizes[i]);
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (share) {
      TROUPE_RETURN_IF_ERROR(ShareRows(ctx, static_cast<int>(i), in, at, at + sizes[i]));
    } else {
      TensorShape shape = in.shape();
      shape.set_dim(axis, sizes[i]);
      TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(static_cast<int>(i), shape));
      StridedCopy copy;
      copy.Add(outer, sizes[i] * inner, in.dim(axis) * inner);
      copy.Add(sizes[i] * inner, 1, 1);
      copy.src_offset = at * inner;
      copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
    }
    at += sizes[i];
  }
  return absl::OkStatus();
}

absl::Status ComputeSplit(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t dim, ReadScalar(ctx.input(0), "split_dim"));
  const Tensor& in = ctx.input(1);
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(dim, in.rank(), "split_dim"));
  const int n = ctx.num_outputs();
  if (in.dim(axis) % n != 0) {
    return InvalidArgument("number of ways to split should evenly divide the split dimension, but split_dim ", axis,
                           " (size = ", in.dim(axis), ") and num_split ", n);
  }
  return Cut(ctx, 1, axis, Ints(static_cast<size_t>(n), in.dim(axis) / n));
}

absl::Status ComputeSplitV(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t dim, ReadScalar(ctx.input(2), "split_dim"));
  const Tensor& in = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(dim, in.rank(), "split_dim"));
  const Tensor& splits = ctx.input(1);
  if (splits.rank() != 1 || splits.num_elements() != ctx.num_outputs()) {
    return InvalidArgument("size_splits must be a vector of ", ctx.num_outputs(), " sizes, got shape ",
                           splits.shape().DebugString());
  }
  Ints sizes = ReadInts(splits);
  int64_t sum = 0;
  int rest = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (rest >= 0) return InvalidArgument("only one size of size_splits may be -1, not both ", rest, " and ", i);
      rest = static_cast<int>(i);
    } else if (sizes[i] < 0) {
      return InvalidArgument("size ", i, " of size_splits must be non-negative, not ", sizes[i]);
    } else {
      sum += sizes[i];
    }
  }
  if (rest >= 0 ? sum > in.dim(axis) : sum != in.dim(axis)) {
    return InvalidArgument("the sizes in size_splits add up to ", sum, ", but dimension ", axis, " of the input is ",
                           in.dim(axis));
  }
  if (rest >= 0) sizes[static_cast<size_t>(rest)] = in.dim(axis) - sum;
  return Cut(ctx, 0, axis, sizes);
}

absl::Status Join(GradientContext& g, int value, int axis) {
  if (g.num_outputs() == 1) {
    g.Set(value, g.Grad(0));
    return g.status();
  }
  std::vector<NodeOut> grads;
  for (int i = 0; i < g.num_outputs(); ++i) grads.push_back(g.Grad(i));
  g.Set(value, g.Op("ConcatV2", std::vector<GradArg>{grads, g.Input(axis)}));
  return g.status();
}
absl::Status SplitGradient(GradientContext& g) { return Join(g, 1, 0); }
absl::Status SplitVGradient(GradientContext& g) { return Join(g, 0, 2); }

TROUPE_OP("Split")
    .Input("split_dim: int32")
    .Input("value: T")
    .Output("output: num_split * T")
    .Attr("num_split: int >= 1")
    .Attr("T: type")
    .Shape(SplitShape)
    .Gradient(SplitGradient)
    .Doc("`value` cut into `num_split` equal pieces along dimension `split_dim`.");
TROUPE_KERNEL("Split").Device("CPU").Types("T", MovableTypes()).HostMemory("split_dim").Function<ComputeSplit>();

TROUPE_OP("SplitV")
    .Input("value: T")
    .Input("size_splits: Tlen")
    .Input("split_dim: int32")
    .Output("output: num_split * T")
    .Attr("num_split: int >= 1")
    .Attr("T: type")
    .Attr("Tlen: {int8, int32, int64} = DT_INT64")
    .Shape(SplitVShape)
    .Gradient(SplitVGradient)
    .Doc(
        "`value` cut along dimension `split_dim` into pieces of the sizes `size_splits`, one of which may be -1: the "
        "rest.");
TROUPE_KERNEL("SplitV")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("size_splits")
    .HostMemory("split_dim")
    .Function<ComputeSplitV>();

}  // namespace
}  // namespace troupe::array
