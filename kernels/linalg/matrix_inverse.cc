// MatrixInverse: the inverses of square matrices, by LU decomposition with row exchanges.
#include "kernels/common/as_float.h"
#include "kernels/common/types.h"
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

// -out^H grad out^H; with `adjoint` the input was transposed first, and so is what it gets.
absl::Status Gradient(GradientContext& g) {
  const bool adjoint = g.Attr<bool>("adjoint");
  const NodeOut inverse = g.Output(0);
  g.Set(0, g.Op("Neg", {Product(g, inverse, Product(g, g.Grad(0), inverse, adjoint, !adjoint), !adjoint)}));
  return g.status();
}

class MatrixInverse {
 public:
  explicit MatrixInverse(KernelInit& init) : adjoint_(init.Attr<bool>("adjoint")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const Matrices m, SquareMatricesOf(ctx, 0));
    const Tensor a = Widened(ctx, ctx.input(0));
    TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(a.dtype(), a.shape()));
    const double n = static_cast<double>(m.rows);
    TROUPE_RETURN_IF_ERROR(VisitField(a.dtype(), [&]<class T>() {
      return ForEachMatrix(ctx, m.count, n * n * n, "Input is not invertible.", [&](int64_t i) {
        return Inverse(a.data<T>() + i * m.elements(), m.rows, adjoint_, out.data<T>() + i * m.elements());
      });
    }));
    ctx.set_output(0, Narrowed(ctx, std::move(out), ctx.output_type(0)));
    return absl::OkStatus();
  }

 private:
  const bool adjoint_;
};

TROUPE_OP("MatrixInverse")
    .Input("input: T")
    .Output("output: T")
    .Attr("adjoint: bool = false")
    .Attr(TROUPE_T_FIELDS)
    .Shape(SquareToSame)
    .Gradient(Gradient)
    .Doc(
        "The inverses of the matrices in the last two dimensions, or with `adjoint` of their adjoints. A matrix that "
        "has none is an\n"
        "error.");
TROUPE_CPU_KERNEL("MatrixInverse").Class<MatrixInverse>();

}  // namespace
}  // namespace troupe::linalg
