// Pad and PadV2: a value with a border of zeros, or of a given value.
#include "kernels/array/paddings.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status PadGradient(GradientContext& g) {
  const NodeOut rank = g.Op("Rank", {g.Input(0)});
  const NodeOut column = g.Op("Pack", std::vector<GradArg>{std::vector<NodeOut>{rank, Int(g, 1)}});
  const NodeOut before = g.Op("Slice", {g.Input(1), IntVector(g, {0, 0}), column});
  const NodeOut begin = g.Op("Reshape", {before, IntVector(g, {-1})});
  g.Set(0, g.Op("Slice", {g.Grad(0), begin, ShapeOf(g, g.Input(0), g.input_type(1))}));
  return g.status();
}

absl::Status ComputePad(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const bool has_value = ctx.num_inputs() == 3;
  if (has_value && ctx.input(2).rank() != 0) {
    return InvalidArgument("constant_values must be a scalar, got shape ", ctx.input(2).shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(const Paddings pad, ReadPaddings(in, ctx.input(1)));
  if (pad.none) return PassOn(ctx);
  const TensorShape in_shape = in.shape();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, pad.shape));
  if (has_value) {
    FillElements(ctx.threads(), out->dtype(), out->raw(), ctx.input(2).raw(), out->num_elements());
  } else {
    ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
  }
  const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(pad.shape.dims());
  StridedCopy copy;
  for (int i = 0; i < in_shape.rank(); ++i) {
    const auto k = static_cast<size_t>(i);
    copy.Add(in_shape.dim(i), to[k], from[k]);
    copy.dst_offset += pad.before[k] * to[k];
  }
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

TROUPE_OP("Pad")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(PaddedShape)
    .Gradient(PadGradient)
    .Doc("`input` with `paddings[i, 0]` zeros before and `paddings[i, 1]` behind it in every dimension i.");
TROUPE_KERNEL("Pad").Device("CPU").Types("T", MovableTypes()).HostMemory("paddings").Function<ComputePad>();

TROUPE_OP("PadV2")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Input("constant_values: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(PaddedShape)
    .Gradient(PadGradient)
    .Doc("As Pad, with the scalar `constant_values` in place of zeros.");
TROUPE_KERNEL("PadV2").Device("CPU").Types("T", MovableTypes()).HostMemory("paddings").Function<ComputePad>();

}  // namespace
}  // namespace troupe::array
