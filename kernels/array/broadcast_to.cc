// BroadcastTo: a value repeated to a shape that it broadcasts to.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status BroadcastToShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape out, c.InputAsShape(1));
  const PartialTensorShape& in = c.input(0);
  if (in.known_rank() && out.known_rank()) {
    if (in.rank() > out.rank())
      return InvalidArgument("cannot broadcast shape ", in.DebugString(), " to ", out.DebugString(), " of lower rank");
    for (int k = 1; k <= in.rank(); ++k) {
      const int64_t from = in.dim(in.rank() - k), to = out.dim(out.rank() - k);
      if (from >= 0 && to >= 0 && from != 1 && from != to) {
        return InvalidArgument("cannot broadcast shape ", in.DebugString(), " to ", out.DebugString());
      }
    }
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status BroadcastToGradient(GradientContext& g) {
  const DType index = g.input_type(1);
  const NodeOut shape = ShapeOf(g, g.Input(0), index);
  const NodeOut both = g.Op("BroadcastGradientArgs", {g.Input(1), shape});
  if (!both.valid()) return g.status();
  const NodeOut sum = g.Op("Sum", {g.Grad(0), NodeOut{both.node, 1}}, {{"keep_dims", true}});
  g.Set(0, g.Op("Reshape", {sum, shape}));
  return g.status();
}

absl::Status ComputeBroadcastTo(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  if (ctx.input(1).rank() > 1)
    return InvalidArgument("shape must be a vector, got shape ", ctx.input(1).shape().DebugString());
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(ReadInts(ctx.input(1))));
  const TensorShape in_shape = in.shape();
  const int extra = shape.rank() - in_shape.rank();
  if (extra < 0)
    return InvalidArgument("cannot broadcast shape ", in_shape.DebugString(), " to ", shape.DebugString(),
                           " of lower rank");
  const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(shape.dims());
  StridedCopy copy;
  for (int k = 0; k < shape.rank(); ++k) {
    const int64_t d = k < extra ? 1 : in_shape.dim(k - extra);
    if (d != 1 && d != shape.dim(k)) {
      return InvalidArgument("incompatible shapes: ", in_shape.DebugString(), " cannot be broadcast to ",
                             shape.DebugString());
    }
    copy.Add(shape.dim(k), to[static_cast<size_t>(k)], d == 1 ? 0 : from[static_cast<size_t>(k - extra)]);
  }
  if (shape.num_elements() == in_shape.num_elements()) return PassOnReshaped(ctx, shape);
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

TROUPE_OP("BroadcastTo")
    .Input("input: T")
    .Input("shape: Tidx")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(BroadcastToShape)
    .Gradient(BroadcastToGradient)
    .Doc("`input` broadcast to `shape` by the rules of NumPy.");
TROUPE_KERNEL("BroadcastTo")
    .Device("CPU")
    .Types("T", MovableTypes())
    .HostMemory("shape")
    .Function<ComputeBroadcastTo>();

}  // namespace
}  // namespace troupe::array
