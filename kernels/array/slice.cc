// Slice: a box cut out of a value, given by where it begins and how big it is.
#include "kernels/array/share_rows.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status CheckRange(int i, int64_t begin, int64_t size, int64_t dim) {
  if (begin < 0 || begin > dim) return InvalidArgument("expected begin[", i, "] in [0, ", dim, "], but got ", begin);
  if (size < 0 || size > dim - begin)
    return InvalidArgument("expected size[", i, "] in [0, ", dim - begin, "], but got ", size);
  return absl::OkStatus();
}

absl::Status SliceShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape begin_shape, c.WithRank(1, 1));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape size_shape, c.WithRank(2, 1));
  TROUPE_ASSIGN_OR_RETURN(const int64_t n, MergeDims(begin_shape.dim(0), size_shape.dim(0)));
  PartialTensorShape in = c.input(0);
  if (n >= 0) {
    TROUPE_ASSIGN_OR_RETURN(in, c.WithRank(0, static_cast<int>(n)));
  } else if (!in.known_rank()) {
    return shape_fn::Unknown(c);
  }
  const Tensor* begin = c.input_tensor(1);
  PartialTensorShape out = PartialTensorShape::OfRank(in.rank());
  if (const Tensor* size = c.input_tensor(2)) {
    if (size->num_elements() != in.rank())
      return InvalidArgument("size has ", size->num_elements(), " elements for an input of rank ", in.rank());
    for (int i = 0; i < in.rank(); ++i) {
      int64_t s = IntAt(*size, i);
      if (s < -1) return InvalidArgument("expected size[", i, "] to be -1 or more, but got ", s);
      if (begin != nullptr && in.dim(i) >= 0) {
        const int64_t b = IntAt(*begin, i);
        if (s == -1) s = in.dim(i) - b;
        TROUPE_RETURN_IF_ERROR(CheckRange(i, b, s, in.dim(i)));
      }
      out.set_dim(i, s);
    }
  } else {
    // Sizes that are partly known, as from the shape of another value; -1 there may be "the rest"
    // as well as "unknown".
    TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape sizes, c.InputAsShape(2));
    if (sizes.known_rank() && sizes.rank() == in.rank()) out = sizes;
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status SliceGradient(GradientContext& g) {
  const DType index = g.input_type(1);
  const NodeOut column =
      g.Op("Pack", std::vector<GradArg>{std::vector<NodeOut>{g.Op("Rank", {g.Input(0)}), Int(g, 1)}});
  const NodeOut begin = g.Input(1);
  const NodeOut behind =
      g.Op("Sub", {g.Op("Sub", {ShapeOf(g, g.Input(0), index), ShapeOf(g, g.Grad(0), index)}), begin});
  const std::vector<NodeOut> columns = {g.Op("Reshape", {begin, column}), g.Op("Reshape", {behind, column})};
  g.Set(0, g.Op("Pad", {g.Grad(0), g.Op("ConcatV2", std::vector<GradArg>{columns, Int(g, 1)})}));
  return g.status();
}

absl::Status ComputeSlice(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const int rank = in.rank();
  for (int i = 1; i <= 2; ++i) {
    if (ctx.input(i).rank() != 1 || ctx.input(i).num_elements() != rank) {
      return InvalidArgument("begin and size must be vectors of ", rank, " elements, but their shapes are ",
                             ctx.input(1).shape().DebugString(), " and ", ctx.input(2).shape().DebugString());
    }
  }
  const TensorShape in_shape = in.shape();
  const Ints begin = ReadInts(ctx.input(1));
  Ints size = ReadInts(ctx.input(2));
  bool all = true, rows = true;
  for (int i = 0; i < rank; ++i) {
    const auto k = static_cast<size_t>(i);
    if (size[k] == -1) size[k] = in.dim(i) - begin[k];
    TROUPE_RETURN_IF_ERROR(CheckRange(i, begin[k], size[k], in.dim(i)));
    const bool whole = size[k] == in.dim(i);
    all = all && whole;
    rows = rows && (i == 0 || whole);
  }
  if (all) return PassOn(ctx);
  if (rows && RowsAreAligned(in, begin[0]) && size[0] > 0) {
    return ShareRows(ctx, 0, in, begin[0], begin[0] + size[0]);
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape(absl::MakeConstSpan(size))));
  const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(size);
  StridedCopy copy;
  for (size_t k = 0; k < size.size(); ++k) {
    copy.Add(size[k], to[k], from[k]);
    copy.src_offset += begin[k] * from[k];
  }
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

TROUPE_OP("Slice")
    .Input("input: T")
    .Input("begin: Index")
    .Input("size: Index")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Index: {int32, int64}")
    .Shape(SliceShape)
    .Gradient(SliceGradient)
    .Doc(
        "The box of `input` that begins at index `begin` and has shape `size`; a size of -1 is everything to the end "
        "of its dimension.");
TROUPE_KERNEL("Slice")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("begin")
    .HostMemory("size")
    .Function<ComputeSlice>();

}  // namespace
}  // namespace troupe::array
