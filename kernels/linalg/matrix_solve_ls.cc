// MatrixSolveLs: systems of linear equations, solved as nearly as possible, or by the smallest of
// their solutions.
#include <algorithm>

#include "kernels/linalg/matrix_math.h"
#include "kernels/linalg/orthogonal.h"

namespace troupe::linalg {
namespace {

using math::In, math::Out, math::Grad;

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape matrix, c.WithRankAtLeast(0, 2));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape rhs, c.WithRankAtLeast(1, 2));
  TROUPE_RETURN_IF_ERROR(c.WithRank(2, 0).status());
  if (!matrix.known_rank() || !rhs.known_rank()) return shape_fn::Unknown(c);
  TROUPE_RETURN_IF_ERROR(MergeDims(matrix.dim(matrix.rank() - 2), rhs.dim(rhs.rank() - 2)).status());
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out,
                          PartialTensorShape(matrix.dims().subspan(0, matrix.rank() - 2))
                              .MergeWith(PartialTensorShape(rhs.dims().subspan(0, rhs.rank() - 2))));
  out.AddDim(matrix.dim(matrix.rank() - 1));
  out.AddDim(rhs.dim(rhs.rank() - 1));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

// (gram + l2 I)^-1 b.
Value SolveGram(const Value& gram, const Value& l2, const Value& b) {
  const Value l = math::Apply("Cholesky", WithDiagonal(gram, Diagonal(gram) + l2));
  return SolveTriangle(l, SolveTriangle(l, b, true), true, true);
}

absl::Status Gradient(GradientContext& g) {
  if (!g.Attr<bool>("fast")) return Unimplemented("MatrixSolveLs has no gradient for fast = false");
  const PartialTensorShape in = g.InputShape(0);
  if (!in.known_rank() || in.dim(in.rank() - 2) < 0 || in.dim(in.rank() - 1) < 0)
    return Unimplemented("the gradient of MatrixSolveLs needs rows and columns that are known when the graph is built");
  const Value a = In(g, 0), b = In(g, 1), x = Out(g), dx = Grad(g);
  const Value l2 = {&g, g.Op("Cast", {g.Input(2)}, {{"DstT", g.input_type(0)}})};
  if (in.dim(in.rank() - 2) >= in.dim(in.rank() - 1)) {
    // x = (a^H a + l2 I)^-1 a^H b.
    const Value z = SolveGram(AdjointMatMul(a, a), l2, dx), xz = MatMulAdjoint(x, z);
    const Value both = xz + math::Conj(Adjoint(xz));
    return math::SetBoth(g, MatMulAdjoint(b, z) - MatMul(a, both), MatMul(a, z));
  }
  // x = a^H (a a^H + l2 I)^-1 b.
  const Value gram = MatMulAdjoint(a, a);
  const Value db = SolveGram(gram, l2, MatMul(a, dx)), y = SolveGram(gram, l2, b);
  const Value da = MatMulAdjoint(y, dx - AdjointMatMul(a, db)) - MatMul(db, AdjointMatMul(y, a));
  return math::SetBoth(g, da, db);
}

class MatrixSolveLs {
 public:
  explicit MatrixSolveLs(KernelInit& init) : fast_(init.Attr<bool>("fast")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Matrices m, MatricesOf(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const Matrices r, MatricesOf(ctx, 1));
    const Tensor &a = ctx.input(0), &b = ctx.input(1), &l2 = ctx.input(2);
    if (l2.rank() != 0) return InvalidArgument("l2_regularizer must be scalar, got shape ", l2.shape().DebugString());
    if (!(l2.scalar<double>() >= 0)) return InvalidArgument("l2_regularizer must be >= 0.");
    if (BatchShape(a.shape()) != BatchShape(b.shape())) {
      return InvalidArgument("The batch dimensions of matrix and rhs must be equal: ", a.shape().DebugString(), " vs. ",
                             b.shape().DebugString());
    }
    if (m.rows != r.rows)
      return InvalidArgument("Input matrix and rhs are incompatible: ", m.rows, " rows vs. ", r.rows);
    TensorShape shape = b.shape();
    shape.set_dim(b.rank() - 2, m.columns);
    TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    const double operations =
        static_cast<double>(m.elements()) * static_cast<double>(std::min(m.rows, m.columns) + r.columns);
    return VisitField(a.dtype(), [&]<class T>() {
      return ForEachMatrix(ctx, m.count, operations,
                           "Input matrix was rank deficient or ill-conditioned. Try setting fast=False or provide a "
                           "larger l2_regularizer > 0.",
                           [&](int64_t i) {
                             return LeastSquares(a.data<T>() + i * m.elements(), m.rows, m.columns, fast_,
                                                 l2.scalar<double>(), b.data<T>() + i * r.elements(), r.columns,
                                                 out->data<T>() + i * m.columns * r.columns);
                           });
    });
  }

 private:
  const bool fast_;
};

TROUPE_OP("MatrixSolveLs")
    .Input("matrix: T")
    .Input("rhs: T")
    .Input("l2_regularizer: double")
    .Output("output: T")
    .Attr(TROUPE_T_FIELDS)
    .Attr("fast: bool = true")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "For matrices [..., m, n] and right sides [..., m, k] the output [..., n, k] that makes |matrix output - "
        "rhs|^2 + l2_regularizer\n"
        "|output|^2 the least. fast solves the normal equations, for matrices of full rank; otherwise the smallest "
        "solution is found,\n"
        "whatever the rank, without l2_regularizer.");
TROUPE_KERNEL("MatrixSolveLs").Device("CPU").Types("T", kFields).HostMemory("l2_regularizer").Class<MatrixSolveLs>();

}  // namespace
}  // namespace troupe::linalg
