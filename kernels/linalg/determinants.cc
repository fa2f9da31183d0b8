// MatrixDeterminant: the determinants of square matrices, by LU decomposition with row exchanges;
// and LogMatrixDeterminant: sign and logarithm of their magnitude, which themselves would overflow.
#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

// The conjugate makes it the gradient of complex determinants too; TensorFlow leaves it out there.
absl::Status MatrixDeterminantGradient(GradientContext& g) {
  const NodeOut inverse = g.Op("MatrixInverse", {g.Input(0)}, {{"adjoint", true}});
  g.Set(0, g.Op("Mul", {PerMatrix(g, g.Op("Mul", {g.Grad(0), math::Conj(math::Out(g)).out})), inverse}));
  return g.status();
}

absl::Status ComputeMatrixDeterminant(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
  const Tensor& a = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, BatchShape(a.shape())));
  const double n = static_cast<double>(m.rows);
  return VisitField(a.dtype(), [&]<class T>() {
    return ForEachMatrix(ctx, m.count, n * n * n / 3, "", [&](int64_t i) {
      T sign;
      const RealOf<T> log = LogDeterminant(a.data<T>() + i * m.elements(), m.rows, &sign);
      out->data<T>()[i] = sign * std::exp(log);
      return true;
    });
  });
}

TROUPE_OP("MatrixDeterminant")
    .Input("input: T")
    .Output("output: T")
    .Attr(TROUPE_T_FIELDS)
    .Shape(SquareToBatch)
    .Gradient(MatrixDeterminantGradient)
    .Doc(
        "The determinants of the matrices in the last two dimensions; 1 for a matrix without elements. Its gradient "
        "needs matrices that\n"
        "have an inverse.");
TROUPE_KERNEL("MatrixDeterminant").Device("CPU").Types("T", kFields).Function<ComputeMatrixDeterminant>();

absl::Status LogMatrixDeterminantGradient(GradientContext& g) {
  if (!g.HasGrad(1)) return absl::OkStatus();  // the sign does not change
  const NodeOut inverse = g.Op("MatrixInverse", {g.Input(0)}, {{"adjoint", true}});
  g.Set(0, g.Op("Mul", {PerMatrix(g, g.Grad(1)), inverse}));
  return g.status();
}

absl::Status ComputeLogMatrixDeterminant(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
  const Tensor& a = ctx.input(0);
  const TensorShape shape = BatchShape(a.shape());
  TROUPE_ASSIGN_OR_RETURN(Tensor* const sign, ctx.AllocateOutput(0, shape));
  TROUPE_ASSIGN_OR_RETURN(Tensor* const log, ctx.AllocateOutput(1, shape));
  const double n = static_cast<double>(m.rows);
  return VisitField(a.dtype(), [&]<class T>() {
    return ForEachMatrix(ctx, m.count, n * n * n / 3, "", [&](int64_t i) {
      log->data<T>()[i] = LogDeterminant(a.data<T>() + i * m.elements(), m.rows, sign->data<T>() + i);
      return true;
    });
  });
}

TROUPE_OP("LogMatrixDeterminant")
    .Input("input: T")
    .Output("sign: T")
    .Output("log_abs_determinant: T")
    .Attr("T: {half, float, double, complex64, complex128}")
    .Shape(SquareToBatch)
    .Gradient(LogMatrixDeterminantGradient)
    .Doc(
        "The determinants of the matrices in the last two dimensions as sign * exp(log_abs_determinant); a singular "
        "matrix has 0 and\n"
        "-inf.");
TROUPE_KERNEL("LogMatrixDeterminant").Device("CPU").Types("T", kFields).Function<ComputeLogMatrixDeterminant>();

}  // namespace
}  // namespace troupe::linalg
