// MatrixDeterminant: the determinants of square matrices, by LU decomposition with row exchanges.
#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

// The conjugate makes it the gradient of complex determinants too; TensorFlow leaves it out there.
absl::Status Gradient(GradientContext& g) {
  const NodeOut inverse = g.Op("MatrixInverse", {g.Input(0)}, {{"adjoint", true}});
  g.Set(0, g.Op("Mul", {PerMatrix(g, g.Op("Mul", {g.Grad(0), math::Conj(math::Out(g)).out})), inverse}));
  return g.status();
}

absl::Status Compute(KernelContext& ctx) {
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
    .Gradient(Gradient)
    .Doc(
        "The determinants of the matrices in the last two dimensions; 1 for a matrix without elements. Its gradient "
        "needs matrices that\n"
        "have an inverse.");
TROUPE_KERNEL("MatrixDeterminant").Device("CPU").Types("T", kFields).Function<Compute>();

}  // namespace
}  // namespace troupe::linalg
