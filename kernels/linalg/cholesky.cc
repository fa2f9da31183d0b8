// Cholesky: the triangular roots of positive definite matrices; and CholeskyGrad, what flows back
// through it, in one op.
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

// l^-H ((l^H grad), its lower triangle with the diagonal halved) l^-1, made self-adjoint.
absl::Status GradientOfCholesky(GradientContext& g) {
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

absl::Status ComputeCholesky(KernelContext& ctx) {
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
    .Gradient(GradientOfCholesky)
    .Doc(
        "For each of the positive definite matrices in the last two dimensions the lower triangle L with L L^H = "
        "input. Only the lower\n"
        "triangle of the input is read; the triangle is filled with NaN where the matrix is not positive definite.");
TROUPE_KERNEL("Cholesky").Device("CPU").Types("T", kFields).Function<ComputeCholesky>();

absl::Status CholeskyGradShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape l, SquareShape(c, 0));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape grad, SquareShape(c, 1));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape both, l.MergeWith(grad));
  c.set_output(0, std::move(both));
  return absl::OkStatus();
}

absl::Status ComputeCholeskyGrad(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
  const Tensor &l = ctx.input(0), &grad = ctx.input(1);
  if (!l.SameShape(grad)) {
    return InvalidArgument("Inputs to CholeskyGrad must have one shape, not ", l.shape().DebugString(), " and ",
                           grad.shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, l.shape()));
  const auto run = [&]<class T>() {
    const double n = static_cast<double>(m.rows);
    return ForEachMatrix(ctx, m.count, 2 * n * n * n, "", [&](int64_t i) {
      const int64_t at = i * m.elements();
      CholeskyGradient(l.data<T>() + at, grad.data<T>() + at, m.rows, out->data<T>() + at);
      return true;
    });
  };
  return l.dtype() == DType::kDouble ? run.template operator()<double>() : run.template operator()<float>();
}

TROUPE_OP("CholeskyGrad")
    .Input("l: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("T: {half, float, double}")
    .Shape(CholeskyGradShape)
    .NotDifferentiable(
        "it is the gradient of Cholesky, which is built of other ops where it is itself to be differentiated")
    .Doc(
        "The gradient of the input of Cholesky, a symmetric matrix, from its output `l` and the gradient of that; only "
        "lower triangles\n"
        "are read.");
TROUPE_KERNEL("CholeskyGrad").Device("CPU").Type<float, double>("T").Function<ComputeCholeskyGrad>();

}  // namespace
}  // namespace troupe::linalg
