// MatrixDiag, MatrixDiagPart, MatrixSetDiag: the main diagonals of the matrices in the last two
// dimensions, put in, taken out, replaced. Versions 2 and 3, of
// bands of diagonals, are in matrix_band.cc.
#include <algorithm>

#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

// The matrices of a tensor: `batch` of them, rows x columns, with diagonals of `length`.
struct Matrices {
  int64_t batch = 1, rows = 0, columns = 0, length = 0;
};
absl::StatusOr<Matrices> MatricesOf(const TensorShape& shape) {
  if (shape.rank() < 2) return InvalidArgument("input must be at least 2-dim, received shape: ", shape.DebugString());
  Matrices m;
  for (int k = 0; k + 2 < shape.rank(); ++k) m.batch *= shape.dim(k);
  m.rows = shape.dim(shape.rank() - 2);
  m.columns = shape.dim(shape.rank() - 1);
  m.length = std::min(m.rows, m.columns);
  return m;
}
TensorShape DiagonalShape(const TensorShape& matrices, int64_t length) {
  TensorShape s = matrices;
  s.RemoveDim(s.rank() - 1);
  s.set_dim(s.rank() - 1, length);
  return s;
}
// Copies diagonals into (out of) matrices.
void CopyDiagonals(KernelContext& ctx, const Matrices& m, DType t, void* dst, const void* src, bool into) {
  StridedCopy copy;
  const int64_t matrix = m.rows * m.columns, step = m.columns + 1;
  if (into) {
    copy.Add(m.batch, matrix, m.length);
    copy.Add(m.length, step, 1);
  } else {
    copy.Add(m.batch, m.length, matrix);
    copy.Add(m.length, 1, step);
  }
  copy.Run(ctx.threads(), t, dst, src);
}

absl::Status MatrixDiagShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.WithRankAtLeast(0, 1));
  if (!out.known_rank()) return shape_fn::Unknown(c);
  out.AddDim(out.dim(out.rank() - 1));
  c.set_output(0, out);
  return absl::OkStatus();
}
absl::StatusOr<PartialTensorShape> PartialDiagonal(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRankAtLeast(0, 2));
  if (!in.known_rank()) return in;
  Ints dims(in.dims().begin(), in.dims().end() - 2);
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  dims.push_back(rows < 0 || columns < 0 ? -1 : std::min(rows, columns));
  return PartialTensorShape(absl::MakeConstSpan(dims));
}
absl::Status MatrixDiagPartShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, PartialDiagonal(c));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}
absl::Status MatrixSetDiagShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape diagonal, PartialDiagonal(c));
  TROUPE_RETURN_IF_ERROR(diagonal.MergeWith(c.input(1)).status());
  c.set_output(0, c.input(0));
  return absl::OkStatus();
}

absl::Status MatrixDiagGradient(GradientContext& g) {
  g.Set(0, g.Op("MatrixDiagPart", {g.Grad(0)}));
  return g.status();
}
// Into zeros of the input's shape, since its matrices need not be square.
absl::Status MatrixDiagPartGradient(GradientContext& g) {
  const NodeOut zeros = g.Op("Fill", {ShapeOf(g, g.Input(0)), g.ScalarLike(g.Grad(0), 0)});
  g.Set(0, g.Op("MatrixSetDiag", {zeros, g.Grad(0)}));
  return g.status();
}
absl::Status MatrixSetDiagGradient(GradientContext& g) {
  const NodeOut zeros = g.Op("Fill", {ShapeOf(g, g.Input(1)), g.ScalarLike(g.Grad(0), 0)});
  g.Set(0, g.Op("MatrixSetDiag", {g.Grad(0), zeros}));
  g.Set(1, g.Op("MatrixDiagPart", {g.Grad(0)}));
  return g.status();
}

absl::Status ComputeMatrixDiag(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  if (in.rank() < 1) return InvalidArgument("diagonal must be at least 1-dim, got a scalar");
  TensorShape shape = in.shape();
  shape.AddDim(in.dim(in.rank() - 1));
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(shape));
  CopyDiagonals(ctx, m, in.dtype(), out->raw(), in.raw(), true);
  return absl::OkStatus();
}

absl::Status ComputeMatrixDiagPart(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(in.shape()));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DiagonalShape(in.shape(), m.length)));
  CopyDiagonals(ctx, m, in.dtype(), out->raw(), in.raw(), false);
  return absl::OkStatus();
}

absl::Status ComputeMatrixSetDiag(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx.input(0).shape()));
  const TensorShape want = DiagonalShape(ctx.input(0).shape(), m.length);
  if (!ctx.input(1).HasShape(want)) {
    return InvalidArgument("diagonal must have shape ", want.DebugString(), " for an input of shape ",
                           ctx.input(0).shape().DebugString(), ", got ", ctx.input(1).shape().DebugString());
  }
  Tensor out = ctx.TakeInput(0);
  if (!out.BufferUnique()) out = out.Clone(ctx.allocator());
  if (!out.valid()) return ResourceExhausted("no memory for a copy of the input");
  CopyDiagonals(ctx, m, out.dtype(), out.raw(), ctx.input(1).raw(), true);
  ctx.set_output(0, std::move(out));
  return absl::OkStatus();
}

TROUPE_OP("MatrixDiag")
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(MatrixDiagShape)
    .Gradient(MatrixDiagGradient)
    .Doc("Square matrices with the vectors in the last dimension of `diagonal` as diagonals and zeros elsewhere.");
TROUPE_KERNEL("MatrixDiag").Device("CPU").Types("T", MovableTypes()).Function<ComputeMatrixDiag>();

TROUPE_OP("MatrixDiagPart")
    .Input("input: T")
    .Output("diagonal: T")
    .Attr("T: type")
    .Shape(MatrixDiagPartShape)
    .Gradient(MatrixDiagPartGradient)
    .Doc("The diagonals of the matrices in the last two dimensions of `input`.");
TROUPE_KERNEL("MatrixDiagPart").Device("CPU").Types("T", MovableTypes()).Function<ComputeMatrixDiagPart>();

TROUPE_OP("MatrixSetDiag")
    .Input("input: T")
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(MatrixSetDiagShape)
    .Gradient(MatrixSetDiagGradient)
    .Doc("`input` with the diagonals of the matrices in its last two dimensions replaced by `diagonal`.");
TROUPE_KERNEL("MatrixSetDiag").Device("CPU").Types("T", MovableTypes()).Function<ComputeMatrixSetDiag>();

}  // namespace
}  // namespace troupe::array
