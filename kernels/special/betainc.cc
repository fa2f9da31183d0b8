// Betainc: the regularised incomplete beta integral, of three arguments.
#include "kernels/common/grad_math.h"
#include "kernels/special/special_functions.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

// Scalars go with any shape; all others must be equal.
absl::Status Shape(InferenceContext& c) {
  PartialTensorShape out;
  bool all_scalars = true;
  for (int i = 0; i < 3; ++i) {
    const PartialTensorShape& in = c.input(i);
    if (in.known_rank() && in.rank() == 0) continue;
    all_scalars = false;
    if (!in.known_rank()) continue;
    TROUPE_ASSIGN_OR_RETURN(out, out.MergeWith(in));
  }
  c.set_output(0, all_scalars ? PartialTensorShape(TensorShape()) : out);
  return absl::OkStatus();
}

// With respect to x: the integrand. Its logarithms come first, since the terms can be large.
absl::Status Gradient(GradientContext& g) {
  const Value a = In(g, 0), b = In(g, 1), x = In(g, 2);
  const Value log_beta = Apply("Lgamma", a) + Apply("Lgamma", b) - Apply("Lgamma", a + b);
  const Value integrand =
      Apply("Exp", Apply("Xlog1py", b - Number(b, 1), -x) + Apply("Xlogy", a - Number(a, 1), x) - log_beta);
  const Value grad = Grad(g) * integrand;
  const NodeOut shape = g.Op("Shape", {x.out}),
                axes = g.Op("BroadcastGradientArgs", {g.Op("Shape", {grad.out}), shape});
  if (g.status().ok()) g.Set(2, g.Op("Reshape", {g.Op("Sum", {grad.out, NodeOut{axes.node, 1}}), shape}));
  return g.status();
}

template <class T>
absl::Status Compute(KernelContext& ctx) {
  int shaped = 0;
  for (int i = 2; i >= 0; --i) {
    if (ctx.input(i).rank() > 0) shaped = i;
  }
  const TensorShape shape = ctx.input(shaped).shape();
  const T* from[3];
  int64_t step[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor& in = ctx.input(i);
    if (in.rank() > 0 && !in.HasShape(shape)) {
      return InvalidArgument("Shapes of a, b and x are inconsistent: ", shape.DebugString(), " vs. ",
                             in.shape().DebugString());
    }
    from[i] = in.data<T>();
    step[i] = in.rank() > 0;
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
  ctx.threads()->ParallelFor(out->num_elements(), 300, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      out->data<T>()[i] =
          static_cast<T>(math::Betainc(from[0][i * step[0]], from[1][i * step[1]], from[2][i * step[2]]));
    }
  });
  return absl::OkStatus();
}

}  // namespace

TROUPE_OP("Betainc")
    .Input("a: T")
    .Input("b: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "The integral of t^(a-1) (1-t)^(b-1) from 0 to x, divided by that from 0 to 1; NaN unless a, b > 0 and 0 <= x "
        "<= 1. Scalars go\n"
        "with any shape. No gradient flows to a and b.");

TROUPE_KERNEL("Betainc").Device("CPU").Type<float>("T").Function<Compute<float>>();
TROUPE_KERNEL("Betainc").Device("CPU").Type<double>("T").Function<Compute<double>>();

}  // namespace troupe
