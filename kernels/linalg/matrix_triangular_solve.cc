// MatrixTriangularSolve: systems of linear equations whose matrix is a triangle, by substitution.
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape matrix, SquareShape(c, 0));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape rhs, c.WithRankAtLeast(1, 2));
  if (!matrix.known_rank() || !rhs.known_rank()) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const int64_t n, MergeDims(matrix.dim(matrix.rank() - 2), rhs.dim(rhs.rank() - 2)));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out,
                          BroadcastPartialShapes(PartialTensorShape(matrix.dims().subspan(0, matrix.rank() - 2)),
                                                 PartialTensorShape(rhs.dims().subspan(0, rhs.rank() - 2))));
  if (!out.known_rank()) return shape_fn::Unknown(c);
  out.AddDim(n);
  out.AddDim(rhs.dim(rhs.rank() - 1));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& g) {
  const bool adjoint = g.Attr<bool>("adjoint"), lower = g.Attr<bool>("lower");
  const NodeOut x = g.Output(0), grad = g.Op("MatrixTriangularSolve", {g.Input(0), g.Grad(0)},
                                             {{"lower", lower}, {"adjoint", !adjoint}});
  const NodeOut full = g.Op("Neg", {adjoint ? Product(g, x, grad, false, true) : Product(g, grad, x, false, true)});
  const auto diagonals = [&g](int64_t n) { return g.Const(Tensor::Scalar<int64_t>(n)); };
  const NodeOut triangle = g.Op("MatrixBandPart", {full, diagonals(lower ? -1 : 0), diagonals(lower ? 0 : -1)});
  SetSummedToBatches(g, triangle, grad);
  return g.status();
}

class MatrixTriangularSolve {
 public:
  explicit MatrixTriangularSolve(KernelInit& init)
      : lower_(init.Attr<bool>("lower")), adjoint_(init.Attr<bool>("adjoint")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
    TROUPE_ASSIGN_OR_RETURN(const Matrices r, MatricesOf(ctx, 1));
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    if (m.rows != r.rows) return InvalidArgument("In[0] and In[1] are incompatible: ", m.rows, " rows vs. ", r.rows);
    const TensorShape ab = BatchShape(a.shape()), bb = BatchShape(b.shape());
    TROUPE_ASSIGN_OR_RETURN(TensorShape shape, BroadcastShapes(ab, bb));
    const TensorShape batch = shape;
    shape.AddDim(r.rows);
    shape.AddDim(r.columns);
    TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    const double n = static_cast<double>(m.rows), columns = static_cast<double>(r.columns);
    return VisitField(a.dtype(), [&]<class T>() {
      return ForEachMatrix(ctx, batch.num_elements(), n * n * columns / 2, "", [&](int64_t i) {
        SolveTriangular(a.data<T>() + SourceMatrix(batch, ab, i) * m.elements(), m.rows, lower_, adjoint_,
                        b.data<T>() + SourceMatrix(batch, bb, i) * r.elements(), r.columns,
                        out->data<T>() + i * r.elements());
        return true;
      });
    });
  }

 private:
  const bool lower_, adjoint_;
};

TROUPE_OP("MatrixTriangularSolve")
    .Input("matrix: T")
    .Input("rhs: T")
    .Output("output: T")
    .Attr("lower: bool = true")
    .Attr("adjoint: bool = false")
    .Attr("T: {bfloat16, double, float, half, complex64, complex128}")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "As MatrixSolve, for matrices of which only the lower (or the upper) triangle counts; the dimensions in front "
        "of the matrices\n"
        "broadcast. Zeros on the diagonal give infinities and NaN.");
TROUPE_KERNEL("MatrixTriangularSolve").Device("CPU").Types("T", kFields).Class<MatrixTriangularSolve>();

}  // namespace
}  // namespace troupe::linalg
