// Svd: singular values and vectors of matrices.
#include <algorithm>
#include <cstring>

#include "kernels/linalg/matrix_math.h"
#include "kernels/linalg/orthogonal.h"

namespace troupe::linalg {
namespace {

using math::In, math::Out, math::Grad;

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRankAtLeast(0, 2));
  TROUPE_ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_uv"));
  TROUPE_ASSIGN_OR_RETURN(const bool full, c.Attr<bool>("full_matrices"));
  if (!in.known_rank()) return shape_fn::Unknown(c);
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  const int64_t k = rows < 0 || columns < 0 ? -1 : std::min(rows, columns);
  PartialTensorShape s(in.dims().subspan(0, in.rank() - 2));
  s.AddDim(k);
  c.set_output(0, std::move(s));
  PartialTensorShape u = in, v = in;
  v.set_dim(in.rank() - 2, columns);
  u.set_dim(in.rank() - 1, full ? rows : k);
  v.set_dim(in.rank() - 1, full ? columns : k);
  c.set_output(1, vectors ? u : PartialTensorShape(TensorShape()));
  c.set_output(2, vectors ? v : PartialTensorShape(TensorShape()));
  return absl::OkStatus();
}

// Giles, "Collected matrix derivative results", and Townsend, "Differentiating the singular value
// decomposition": of a matrix that is not higher than wide, with m rows and n columns.
Value GradientOfWide(const Value& s, const Value& u, const Value& v, const Value& ds, const Value& du, const Value& dv,
                     int64_t m, int64_t n, bool full) {
  const Value f = ReciprocalDifferences(s * s), of_s = DiagonalMatrix(s), inverse = DiagonalMatrix(SafeReciprocal(s));
  const Value v1 = m == n ? v : Columns(v, 0, m), dv1 = m == n ? dv : Columns(dv, 0, m);
  const Value vdv = AdjointMatMul(v1, dv1), fu = f * AdjointMatMul(u, du), fv = f * vdv;
  Value sum = MatMul(
      u, MatMulAdjoint(DiagonalMatrix(ds) + MatMul(fu + Adjoint(fu), of_s) + MatMul(of_s, fv + Adjoint(fv)), v1));
  if (m != n) {
    const Value dvh = Adjoint(dv1);
    Value rest = dvh - MatMulAdjoint(MatMul(dvh, v1), v1);
    if (full) rest = rest - MatMulAdjoint(AdjointMatMul(v1, Columns(dv, m, n)), Columns(v, m, n));
    sum = sum + MatMul(MatMul(u, inverse), rest);
  }
  if (IsComplex(BaseType(s.out.dtype()))) {
    const Value l = DiagonalMatrix(Diagonal(vdv));
    sum = sum + 0.5 * MatMul(u, MatMulAdjoint(MatMul(inverse, Adjoint(l) - l), v1));
  }
  return sum;
}

absl::Status Gradient(GradientContext& g) {
  if (!g.Attr<bool>("compute_uv")) {
    const NodeOut s = g.Op("Svd", {g.Input(0)}, {{"compute_uv", true}, {"full_matrices", false}});
    if (!s.valid()) return g.status();
    const Value u = {&g, {s.node, 1}}, v = {&g, {s.node, 2}};
    return math::SetUnary(g, MatMul(u, MatMulAdjoint(DiagonalMatrix(Grad(g, 0)), v)));
  }
  const PartialTensorShape in = g.InputShape(0);
  if (!in.known_rank() || in.dim(in.rank() - 2) < 0 || in.dim(in.rank() - 1) < 0)
    return Unimplemented("the gradient of Svd needs rows and columns that are known when the graph is built");
  const int64_t m = in.dim(in.rank() - 2), n = in.dim(in.rank() - 1);
  const bool full = g.Attr<bool>("full_matrices");
  if (full && std::abs(m - n) > 1)
    return Unimplemented("Svd with full_matrices has no gradient for sizes that differ by more than 1: ", m, " and ",
                         n);
  const Value s = Out(g, 0), u = Out(g, 1), v = Out(g, 2), ds = Grad(g, 0), du = Grad(g, 1), dv = Grad(g, 2);
  if (m <= n) return math::SetUnary(g, GradientOfWide(s, u, v, ds, du, dv, m, n, full));
  // The adjoint of the matrix has u and v the other way round.
  return math::SetUnary(g, Adjoint(GradientOfWide(s, v, u, ds, dv, du, n, m, full)));
}

class SvdKernel {
 public:
  explicit SvdKernel(KernelInit& init)
      : vectors_(init.Attr<bool>("compute_uv")), full_(init.Attr<bool>("full_matrices")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx, 0));
    const Tensor& a = ctx.input(0);
    const int64_t k = std::min(m.rows, m.columns);
    const int64_t of_u = full_ ? m.rows : k, of_v = full_ ? m.columns : k;
    TensorShape s_shape = BatchShape(a.shape());
    TensorShape u_shape = s_shape, v_shape = s_shape;
    s_shape.AddDim(k);
    u_shape.AddDim(m.rows);
    u_shape.AddDim(of_u);
    v_shape.AddDim(m.columns);
    v_shape.AddDim(of_v);
    for (const TensorShape& shape : {u_shape, v_shape})
      TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
    TROUPE_ASSIGN_OR_RETURN(Tensor* const s, ctx.AllocateOutput(0, s_shape));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const u, ctx.AllocateOutput(1, vectors_ ? u_shape : TensorShape()));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const v, ctx.AllocateOutput(2, vectors_ ? v_shape : TensorShape()));
    if (!vectors_) {
      std::memset(u->raw(), 0, u->bytes());
      std::memset(v->raw(), 0, v->bytes());
    }
    const double operations = 10.0 * static_cast<double>(m.elements()) * static_cast<double>(k);
    return VisitField(a.dtype(), [&]<class T>() {
      return ForEachMatrix(ctx, m.count, operations, "", [&](int64_t i) {
        Svd(a.data<T>() + i * m.elements(), m.rows, m.columns, full_, s->data<T>() + i * k,
            vectors_ ? u->data<T>() + i * m.rows * of_u : nullptr,
            vectors_ ? v->data<T>() + i * m.columns * of_v : nullptr);
        return true;
      });
    });
  }

 private:
  const bool vectors_, full_;
};

TROUPE_OP("Svd")
    .Input("input: T")
    .Output("s: T")
    .Output("u: T")
    .Output("v: T")
    .Attr("compute_uv: bool = true")
    .Attr("full_matrices: bool = false")
    .Attr(TROUPE_T_FIELDS)
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "For each of the matrices in the last two dimensions its singular values s, descending, and orthonormal "
        "columns u and v with\n"
        "u diag(s) v^H = input; as many as the smaller size of the matrix, with full_matrices as many as make u and v "
        "square. Without\n"
        "compute_uv u and v are scalars without meaning.");
TROUPE_KERNEL("Svd").Device("CPU").Types("T", kFields).Class<SvdKernel>();

}  // namespace
}  // namespace troupe::linalg
