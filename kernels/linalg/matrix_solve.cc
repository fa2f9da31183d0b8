// MatrixSolve: systems of linear equations, by LU decomposition with row exchanges.
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape matrix, SquareShape(c, 0));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape rhs, c.WithRankAtLeast(1, 2));
  if (!matrix.known_rank() || !rhs.known_rank()) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const int64_t n, MergeDims(matrix.dim(matrix.rank() - 2), rhs.dim(rhs.rank() - 2)));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out,
                          PartialTensorShape(matrix.dims().subspan(0, matrix.rank() - 2))
                              .MergeWith(PartialTensorShape(rhs.dims().subspan(0, rhs.rank() - 2))));
  out.AddDim(n);
  out.AddDim(rhs.dim(rhs.rank() - 1));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& g) {
  const bool adjoint = g.Attr<bool>("adjoint");
  const NodeOut x = g.Output(0), grad = g.Op("MatrixSolve", {g.Input(0), g.Grad(0)}, {{"adjoint", !adjoint}});
  g.Set(0, g.Op("Neg", {adjoint ? Product(g, x, grad, false, true) : Product(g, grad, x, false, true)}));
  g.Set(1, grad);
  return g.status();
}

class MatrixSolve {
 public:
  explicit MatrixSolve(KernelInit& init) : adjoint_(init.Attr<bool>("adjoint")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const Matrices r, MatricesOf(ctx, 1));
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    if (BatchShape(a.shape()) != BatchShape(b.shape())) {
      return InvalidArgument("The batch dimensions of matrix and rhs must be equal: ", a.shape().DebugString(), " vs. ",
                             b.shape().DebugString());
    }
    if (m.rows != r.rows)
      return InvalidArgument("Input matrix and rhs are incompatible: ", m.rows, " rows vs. ", r.rows);
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, b.shape()));
    const double n = static_cast<double>(m.rows), columns = static_cast<double>(r.columns);
    return VisitField(a.dtype(), [&]<class T>() {
      return ForEachMatrix(ctx, m.count, n * n * (n + columns), "Input matrix is not invertible.", [&](int64_t i) {
        return Solve(a.data<T>() + i * m.elements(), m.rows, adjoint_, b.data<T>() + i * r.elements(), r.columns,
                     out->data<T>() + i * r.elements());
      });
    });
  }

 private:
  const bool adjoint_;
};

TROUPE_OP("MatrixSolve")
    .Input("matrix: T")
    .Input("rhs: T")
    .Output("output: T")
    .Attr("adjoint: bool = false")
    .Attr(TROUPE_T_FIELDS)
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "For matrices [..., n, n] and right sides [..., n, k] the solutions of matrix output = rhs, or with `adjoint` "
        "of matrix^H\n"
        "output = rhs. A matrix that has no inverse is an error.");
TROUPE_KERNEL("MatrixSolve").Device("CPU").Types("T", kFields).Class<MatrixSolve>();

}  // namespace
}  // namespace troupe::linalg
