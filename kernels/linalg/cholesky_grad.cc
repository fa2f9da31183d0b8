// CholeskyGrad: what flows back through a Cholesky decomposition, in one op.
#include "kernels/linalg/matrices.h"

namespace troupe::linalg {
namespace {

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape l, SquareShape(c, 0));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape grad, SquareShape(c, 1));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape both, l.MergeWith(grad));
  c.set_output(0, std::move(both));
  return absl::OkStatus();
}

absl::Status Compute(KernelContext& ctx) {
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
    .Shape(Shape)
    .NotDifferentiable(
        "it is the gradient of Cholesky, which is built of other ops where it is itself to be differentiated")
    .Doc(
        "The gradient of the input of Cholesky, a symmetric matrix, from its output `l` and the gradient of that; only "
        "lower triangles\n"
        "are read.");
TROUPE_KERNEL("CholeskyGrad").Device("CPU").Type<float, double>("T").Function<Compute>();

}  // namespace
}  // namespace troupe::linalg
