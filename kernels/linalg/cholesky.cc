// Cholesky: the triangular roots of positive definite matrices.
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

// l^-H ((l^H grad), its lower triangle with the diagonal halved) l^-1, made self-adjoint.
absl::Status Gradient(GradientContext& g) {
  const NodeOut l = g.Output(0);
  const DType t = g.input_type(0);
  const NodeOut one = g.Op("MatrixDiag", {g.Op("OnesLike", {g.Op("MatrixDiagPart", {l})})});
  const NodeOut inverse = g.Op("MatrixTriangularSolve", {l, one});
  NodeOut middle = Product(g, l, g.Grad(0), true);
  middle = g.Op("MatrixSetDiag", {middle, g.Op("Mul", {g.Scalar(t, 0.5), g.Op("MatrixDiagPart", {middle})})});
  const auto diagonals = [&g](int64_t n) { return g.Const(Tensor::Scalar<int64_t>(n)); };
  middle = g.Op("MatrixBandPart", {middle, diagonals(-1), diagonals(0)});
  const NodeOut grad = Product(g, Product(g, inverse, middle, true), inverse);
  g.Set(0, g.Op("Mul", {g.Scalar(t, 0.5), g.Op("AddV2", {grad, Adjoint(g, grad)})}));
  return g.status();
}

absl::Status Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
  const Tensor& a = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, a.shape()));
  const double n = static_cast<double>(m.rows);
  return VisitField(a.dtype(), [&]<class T>() {
    return ForEachMatrix(ctx, m.count, n * n * n / 6, "", [&](int64_t i) {
      Cholesky(a.data<T>() + i * m.elements(), m.rows, out->data<T>() + i * m.elements());
      return true;
    });
  });
}

TROUPE_OP("Cholesky")
    .Input("input: T")
    .Output("output: T")
    .Attr(TROUPE_T_FIELDS)
    .Shape(SquareToSame)
    .Gradient(Gradient)
    .Doc(
        "For each of the positive definite matrices in the last two dimensions the lower triangle L with L L^H = "
        "input. Only the lower\n"
        "triangle of the input is read; the triangle is filled with NaN where the matrix is not positive definite.");
TROUPE_KERNEL("Cholesky").Device("CPU").Types("T", kFields).Function<Compute>();

}  // namespace
}  // namespace troupe::linalg
