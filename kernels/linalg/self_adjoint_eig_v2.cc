// SelfAdjointEigV2: eigenvalues and eigenvectors of self-adjoint matrices.
#include <cstring>

#include "kernels/linalg/matrix_math.h"
#include "kernels/linalg/orthogonal.h"

namespace troupe::linalg {
namespace {

using math::Out, math::Grad;

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, SquareShape(c, 0));
  TROUPE_ASSIGN_OR_RETURN(const bool vectors, c.Attr<bool>("compute_v"));
  if (!in.known_rank()) return shape_fn::Unknown(c);
  c.set_output(0, PartialTensorShape(in.dims().subspan(0, in.rank() - 1)));
  c.set_output(1, vectors ? in : PartialTensorShape(TensorShape()));
  return absl::OkStatus();
}

// v (diag(de) + f o (v^H dv)) v^H with f = 1 / (e[j] - e[i]), as the gradient of the lower
// triangle.
absl::Status Gradient(GradientContext& g) {
  const Value de = DiagonalMatrix(Grad(g, 0));
  Value v = Out(g, 1), middle = de;
  if (g.Attr<bool>("compute_v")) {
    middle = de + ReciprocalDifferences(Out(g, 0)) * AdjointMatMul(v, Grad(g, 1));
  } else {
    const NodeOut e = g.Op("SelfAdjointEigV2", {g.Input(0)}, {{"compute_v", true}});
    if (!e.valid()) return g.status();
    v.out = {e.node, 1};
  }
  const Value full = MatMul(v, MatMulAdjoint(middle, v));
  const Value lower = LowerTriangle(full + Adjoint(full));
  return math::SetUnary(g, WithDiagonal(lower, 0.5 * Diagonal(lower)));
}

class SelfAdjointEig {
 public:
  explicit SelfAdjointEig(KernelInit& init) : vectors_(init.Attr<bool>("compute_v")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
    const Tensor& a = ctx.input(0);
    TensorShape values = BatchShape(a.shape());
    values.AddDim(m.rows);
    TROUPE_ASSIGN_OR_RETURN(Tensor* const e, ctx.AllocateOutput(0, values));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const v, ctx.AllocateOutput(1, vectors_ ? a.shape() : TensorShape()));
    if (!vectors_) std::memset(v->raw(), 0, v->bytes());
    const double n = static_cast<double>(m.rows);
    return VisitField(a.dtype(), [&]<class T>() {
      return ForEachMatrix(ctx, m.count, (vectors_ ? 9 : 2) * n * n * n,
                           "Self-adjoint eigen decomposition was not successful. The input might not be valid.",
                           [&](int64_t i) {
                             return SelfAdjointEigen(a.data<T>() + i * m.elements(), m.rows, e->data<T>() + i * m.rows,
                                                     vectors_ ? v->data<T>() + i * m.elements() : nullptr);
                           });
    });
  }

 private:
  const bool vectors_;
};

TROUPE_OP("SelfAdjointEigV2")
    .Input("input: T")
    .Output("e: T")
    .Output("v: T")
    .Attr("compute_v: bool = true")
    .Attr(TROUPE_T_FIELDS)
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "For each of the self-adjoint matrices in the last two dimensions its eigenvalues e, ascending, and "
        "orthonormal columns v with\n"
        "input v = v diag(e). Only the lower triangle of the input is read. Without compute_v v is a scalar without "
        "meaning.");
TROUPE_KERNEL("SelfAdjointEigV2").Device("CPU").Types("T", kFields).Class<SelfAdjointEig>();

}  // namespace
}  // namespace troupe::linalg
