// Unpack: a value taken apart along a dimension, which the pieces no longer have.
#include "kernels/array/share_rows.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status UnpackShape(InferenceContext& c) {
  const PartialTensorShape& in = c.input(0);
  if (!in.known_rank()) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const int64_t attr, c.Attr<int64_t>("axis"));
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attr, in.rank()));
  if (in.dim(axis) >= 0 && in.dim(axis) != c.num_outputs()) {
    return InvalidArgument("dimension ", axis, " of shape ", in.DebugString(), " must be ", c.num_outputs(),
                           ", the number of outputs");
  }
  Ints dims(in.dims().begin(), in.dims().end());
  dims.erase(dims.begin() + axis);
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialTensorShape(absl::MakeConstSpan(dims)));
  return absl::OkStatus();
}

absl::Status UnpackGradient(GradientContext& g) {
  std::vector<NodeOut> grads;
  for (int i = 0; i < g.num_outputs(); ++i) grads.push_back(g.Grad(i));
  if (!grads.empty()) g.Set(0, g.Op("Pack", std::vector<GradArg>{grads}, {{"axis", g.Attr<int64_t>("axis")}}));
  return g.status();
}

class UnpackKernel {
 public:
  explicit UnpackKernel(KernelInit& init) : axis_(init.Attr<int64_t>("axis")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const int n = ctx.num_outputs();
    TensorShape shape = in.shape();
    TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, in.rank()));
    if (in.dim(axis) != n) {
      return InvalidArgument("dimension ", axis, " of the input of shape ", shape.DebugString(), " must be ", n,
                             ", the number of outputs");
    }
    int64_t inner = 1, outer = 1;
    for (int k = 0; k < axis; ++k) outer *= shape.dim(k);
    for (int k = axis + 1; k < shape.rank(); ++k) inner *= shape.dim(k);
    shape.RemoveDim(axis);
    if (n == 1) return PassOnReshaped(ctx, shape);
    const bool share = axis == 0 && RowsAreAligned(in, 1);
    for (int i = 0; i < n; ++i) {
      if (share) {
        TROUPE_RETURN_IF_ERROR(ShareRows(ctx, i, in, i, i + 1));
        ctx.set_output(i, std::move(*ctx.output(i)).ReshapedMove(shape));
        continue;
      }
      TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(i, shape));
      StridedCopy copy;
      copy.Add(outer, inner, n * inner);
      copy.Add(inner, 1, 1);
      copy.src_offset = i * inner;
      copy.Run(ctx.threads(), out->dtype(), out->raw(), in.raw());
    }
    return absl::OkStatus();
  }

 private:
  int64_t axis_;
};

TROUPE_OP("Unpack")
    .Input("value: T")
    .Output("output: num * T")
    .Attr("num: int >= 0")
    .Attr("T: type")
    .Attr("axis: int = 0")
    .Shape(UnpackShape)
    .Gradient(UnpackGradient)
    .Doc("The `num` values of which `value` consists along dimension `axis`, each without that dimension.");
TROUPE_KERNEL("Unpack").Device("CPU").Types("T", MovableTypes()).Class<UnpackKernel>();

}  // namespace
}  // namespace troupe::array
