// Tile: a value repeated along its dimensions.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status TileShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape vector, c.WithRank(1, 1));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape multiples, c.InputAsShape(1));
  PartialTensorShape in = c.input(0);
  if (!in.known_rank()) {
    if (!multiples.known_rank()) return shape_fn::Unknown(c);
    in = PartialTensorShape::OfRank(multiples.rank());
  } else if (vector.dim(0) >= 0 && vector.dim(0) != in.rank()) {
    return InvalidArgument("multiples has ", vector.dim(0), " elements for an input of rank ", in.rank());
  }
  if (!multiples.known_rank()) {
    c.set_output(0, PartialTensorShape::OfRank(in.rank()));
    return absl::OkStatus();
  }
  for (int i = 0; i < in.rank(); ++i) in.set_dim(i, MulDims(in.dim(i), multiples.dim(i)));
  c.set_output(0, in);
  return absl::OkStatus();
}

// Output dimension i is (multiple, size): under the shape [m0, d0, m1, d1, ...] the gradient is
// summed over the even dimensions.
absl::Status TileGradient(GradientContext& g) {
  const NodeOut shape = ShapeOf(g, g.Input(0), g.input_type(1));
  const NodeOut pairs = g.Op("Pack", std::vector<GradArg>{std::vector<NodeOut>{g.Input(1), shape}}, {{"axis", 1}});
  const NodeOut split_shape = g.Op("Reshape", {pairs, IntVector(g, {-1})});
  const NodeOut even = g.Op("Range", {Int(g, 0), g.Op("Size", {split_shape}), Int(g, 2)});
  g.Set(0, g.Op("Reshape", {g.Op("Sum", {g.Op("Reshape", {g.Grad(0), split_shape}), even}), shape}));
  return g.status();
}

absl::Status ComputeTile(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const Tensor& multiples = ctx.input(1);
  if (multiples.rank() != 1 || multiples.num_elements() != in.rank()) {
    return InvalidArgument("multiples must be a vector of ", in.rank(), " elements, got shape ",
                           multiples.shape().DebugString());
  }
  const TensorShape in_shape = in.shape();
  Ints dims;
  bool same = true;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t m = IntAt(multiples, i);
    if (m < 0) return InvalidArgument("expected multiples[", i, "] >= 0, but got ", m);
    const int64_t d = MultiplyWithoutOverflow(m, in.dim(i));
    if (d < 0) return InvalidArgument("dimension ", i, " of the tiled shape is too big: ", m, " times ", in.dim(i));
    dims.push_back(d);
    same = same && d == in.dim(i);
  }
  if (same) return PassOn(ctx);
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  if (out->num_elements() == 0) return absl::OkStatus();
  const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(dims);
  StridedCopy copy;
  for (int i = 0; i < in_shape.rank(); ++i) {
    const auto k = static_cast<size_t>(i);
    copy.Add(IntAt(multiples, i), in_shape.dim(i) * to[k], 0);
    copy.Add(in_shape.dim(i), to[k], from[k]);
  }
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

TROUPE_OP("Tile")
    .Input("input: T")
    .Input("multiples: Tmultiples")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tmultiples: {int32, int64} = DT_INT32")
    .Shape(TileShape)
    .Gradient(TileGradient)
    .Doc("`input` repeated `multiples[i]` times along each dimension i.");
TROUPE_KERNEL("Tile").Device("CPU").Types("T", MovableTypes()).HostMemory("multiples").Function<ComputeTile>();

}  // namespace
}  // namespace troupe::array
