// Pack: values of one shape stacked along a new dimension.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status PackShape(InferenceContext& c) {
  PartialTensorShape one = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    absl::StatusOr<PartialTensorShape> merged = one.MergeWith(c.input(i));
    if (!merged.ok()) {
      return InvalidArgument("shapes of all values must be equal: value ", i, " has shape ", c.input(i).DebugString(),
                             ", those before ", one.DebugString());
    }
    one = *std::move(merged);
  }
  if (!one.known_rank()) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const int64_t attr, c.Attr<int64_t>("axis"));
  TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attr, one.rank() + 1));
  Ints dims(one.dims().begin(), one.dims().end());
  dims.insert(dims.begin() + axis, c.num_inputs());
  c.set_output(0, PartialTensorShape(absl::MakeConstSpan(dims)));
  return absl::OkStatus();
}

absl::Status PackGradient(GradientContext& g) {
  const NodeOut pieces = g.Op("Unpack", {g.Grad(0)}, {{"num", g.num_inputs()}, {"axis", g.Attr<int64_t>("axis")}});
  if (!pieces.valid()) return g.status();
  for (int i = 0; i < g.num_inputs(); ++i) g.Set(i, NodeOut{pieces.node, i});
  return g.status();
}

class PackKernel {
 public:
  explicit PackKernel(KernelInit& init) : axis_(init.Attr<int64_t>("axis")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& first = ctx.input(0);
    const int64_t n = ctx.num_inputs();
    TensorShape shape = first.shape();
    TROUPE_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axis_, shape.rank() + 1));
    for (int i = 1; i < n; ++i) {
      if (!ctx.input(i).SameShape(first)) {
        return InvalidArgument("shapes of all values must be equal: value 0 has shape ", shape.DebugString(),
                               ", value ", i, " has ", ctx.input(i).shape().DebugString());
      }
    }
    shape.InsertDim(axis, n);
    if (n == 1) return PassOnReshaped(ctx, shape);
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    int64_t inner = 1, outer = 1;
    for (int k = 0; k < axis; ++k) outer *= shape.dim(k);
    for (int k = axis + 1; k < shape.rank(); ++k) inner *= shape.dim(k);
    for (int i = 0; i < n; ++i) {
      StridedCopy copy;
      copy.Add(outer, n * inner, inner);
      copy.Add(inner, 1, 1);
      copy.dst_offset = i * inner;
      copy.Run(ctx.threads(), out->dtype(), out->raw(), ctx.input(i).raw());
    }
    return absl::OkStatus();
  }

 private:
  int64_t axis_;
};

TROUPE_OP("Pack")
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Attr("axis: int = 0")
    .Shape(PackShape)
    .Gradient(PackGradient)
    .Doc("The N `values`, all of one shape, stacked along a new dimension `axis` of size N.");
TROUPE_KERNEL("Pack").Device("CPU").Types("T", MovableTypes()).Class<PackKernel>();

}  // namespace
}  // namespace troupe::array
