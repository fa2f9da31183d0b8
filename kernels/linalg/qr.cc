// Qr: matrices as a product of orthonormal columns and an upper triangle, by Householder's
// reflections.
#include <algorithm>

#include "kernels/common/as_float.h"
#include "kernels/common/types.h"
#include "kernels/linalg/matrix_math.h"
#include "kernels/linalg/orthogonal.h"

namespace troupe::linalg {
namespace {

using math::In, math::Out, math::Grad;

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRankAtLeast(0, 2));
  TROUPE_ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  if (!in.known_rank()) return shape_fn::Unknown(c);
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  const int64_t height = full ? rows : rows < 0 || columns < 0 ? -1 : std::min(rows, columns);
  PartialTensorShape q = in, r = in;
  q.set_dim(in.rank() - 1, height);
  r.set_dim(in.rank() - 2, height);
  c.set_output(0, std::move(q));
  c.set_output(1, std::move(r));
  return absl::OkStatus();
}

// x r^-H.
Value Divided(const Value& x, const Value& r) { return Adjoint(SolveTriangle(r, Adjoint(x), false)); }

// Roberts and Roberts, "QR and LQ decomposition matrix backpropagation": of a matrix that is not
// wider than high.
Value GradientOfTall(const Value& q, const Value& r, const Value& dq, const Value& dr) {
  const Value qdq = AdjointMatMul(q, dq), rdr = MatMulAdjoint(r, dr);
  const Value triangle = LowerTriangle((qdq - Adjoint(qdq)) + (rdr - Adjoint(rdr)));
  Value sum = MatMul(q, dr + Divided(triangle, r)) + Divided(dq - MatMul(q, qdq), r);
  if (IsComplex(BaseType(q.out.dtype()))) {
    // The diagonal of r is real: what its imaginary part would change goes back.
    const Value d = Diagonal(rdr - Adjoint(qdq));
    const Value real = math::MakeComplex(math::PartOf("Real", d), math::PartOf("Imag", math::Apply("ZerosLike", d)));
    sum = sum + Divided(MatMul(q, Adjoint(DiagonalMatrix(d - real))), r);
  }
  return sum;
}

absl::Status Gradient(GradientContext& g) {
  const PartialTensorShape in = g.InputShape(0);
  if (!in.known_rank() || in.dim(in.rank() - 2) < 0 || in.dim(in.rank() - 1) < 0)
    return Unimplemented("the gradient of Qr needs rows and columns that are known when the graph is built");
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  if (rows > columns && g.Attr<bool>("full_matrices"))
    return Unimplemented("Qr with full_matrices has no gradient for more rows than columns: ", rows, " > ", columns);
  const Value q = Out(g, 0), r = Out(g, 1), dq = Grad(g, 0), dr = Grad(g, 1);
  if (rows >= columns) return math::SetUnary(g, GradientOfTall(q, r, dq, dr));
  // a = [x, y], r = [u, v]: x is square, and y = q v.
  const Value y = Columns(In(g, 0), rows, -1), dv = Columns(dr, rows, -1);
  const Value dx = GradientOfTall(q, Columns(r, 0, rows), dq + MatMulAdjoint(y, dv), Columns(dr, 0, rows));
  return math::SetUnary(g, SideBySide(dx, MatMul(q, dv)));
}

class QrKernel {
 public:
  explicit QrKernel(KernelInit& init) : full_(init.Attr<bool>("full_matrices")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx, 0));
    const DType type = ctx.output_type(0);
    const Tensor a = Widened(ctx, ctx.input(0));
    const int64_t height = full_ ? m.rows : std::min(m.rows, m.columns);
    TensorShape q_shape = a.shape(), r_shape = a.shape();
    q_shape.set_dim(a.rank() - 1, height);
    r_shape.set_dim(a.rank() - 2, height);
    TROUPE_RETURN_IF_ERROR(TensorShape::Make(q_shape.dims()).status());
    TROUPE_ASSIGN_OR_RETURN(Tensor q, ctx.AllocateTemp(a.dtype(), q_shape));
    TROUPE_ASSIGN_OR_RETURN(Tensor r, ctx.AllocateTemp(a.dtype(), r_shape));
    const double operations =
        2.0 * static_cast<double>(m.rows) * static_cast<double>(m.columns) * static_cast<double>(height);
    TROUPE_RETURN_IF_ERROR(VisitField(a.dtype(), [&]<class T>() {
      return ForEachMatrix(ctx, m.count, operations, "", [&](int64_t i) {
        Qr(a.data<T>() + i * m.elements(), m.rows, m.columns, full_, q.data<T>() + i * m.rows * height,
           r.data<T>() + i * height * m.columns);
        return true;
      });
    }));
    ctx.set_output(0, Narrowed(ctx, std::move(q), type));
    ctx.set_output(1, Narrowed(ctx, std::move(r), type));
    return absl::OkStatus();
  }

 private:
  const bool full_;
};

TROUPE_OP("Qr")
    .Input("input: T")
    .Output("q: T")
    .Output("r: T")
    .Attr("full_matrices: bool = false")
    .Attr(TROUPE_T_FIELDS)
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "For each of the matrices in the last two dimensions orthonormal columns q and an upper triangle r with q r = "
        "input. q has as\n"
        "many columns as the smaller size of the matrix, with full_matrices as many as it has rows.");
TROUPE_CPU_KERNEL("Qr").Class<QrKernel>();

}  // namespace
}  // namespace troupe::linalg
