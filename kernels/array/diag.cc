// Diag and DiagPart: a tensor of rank k as the diagonal of one of rank 2k, and back.
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

absl::Status DiagShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRankAtLeast(0, 1));
  if (!in.known_rank()) return shape_fn::Unknown(c);
  PartialTensorShape out = in;
  for (int64_t d : in.dims()) out.AddDim(d);
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status DiagPartShape(InferenceContext& c) {
  const PartialTensorShape& in = c.input(0);
  if (!in.known_rank()) return shape_fn::Unknown(c);
  if (in.rank() == 0 || in.rank() % 2 != 0)
    return InvalidArgument("the rank of the input must be even and positive, but its shape is ", in.DebugString());
  PartialTensorShape out = PartialTensorShape::OfRank(0);
  for (int k = 0; k < in.rank() / 2; ++k) {
    TROUPE_ASSIGN_OR_RETURN(const int64_t d, MergeDims(in.dim(k), in.dim(k + in.rank() / 2)));
    out.AddDim(d);
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status ComputeDiag(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  if (in.rank() < 1) return InvalidArgument("the input must be at least a vector, got a scalar");
  TensorShape shape = in.shape();
  shape.Append(in.shape());
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
  StridedCopy copy;
  copy.Add(in.num_elements(), in.num_elements() + 1, 1);
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

absl::Status ComputeDiagPart(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const int half = in.rank() / 2;
  bool fits = in.rank() > 0 && in.rank() % 2 == 0;
  TensorShape shape;
  for (int k = 0; fits && k < half; ++k) {
    fits = in.dim(k) == in.dim(k + half);
    shape.AddDim(in.dim(k));
  }
  if (!fits) return InvalidArgument("the input's shape must be some shape twice, got ", in.shape().DebugString());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  StridedCopy copy;
  copy.Add(out->num_elements(), 1, out->num_elements() + 1);
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

absl::Status DiagGradient(GradientContext& g) {
  g.Set(0, g.Op("DiagPart", {g.Grad(0)}));
  return g.status();
}
absl::Status DiagPartGradient(GradientContext& g) {
  g.Set(0, g.Op("Diag", {g.Grad(0)}));
  return g.status();
}

TROUPE_OP("Diag")
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
    .Shape(DiagShape)
    .Gradient(DiagGradient)
    .Doc("Zeros of shape [D..., D...] with output[i..., i...] = diagonal[i...].");
TROUPE_KERNEL("Diag").Device("CPU").Function<ComputeDiag>();

TROUPE_OP("DiagPart")
    .Input("input: T")
    .Output("diagonal: T")
    .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
    .Shape(DiagPartShape)
    .Gradient(DiagPartGradient)
    .Doc("The diagonal of an input of shape [D..., D...]: diagonal[i...] = input[i..., i...].");
TROUPE_KERNEL("DiagPart").Device("CPU").Function<ComputeDiagPart>();

}  // namespace
}  // namespace troupe::array
