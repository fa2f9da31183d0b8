#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/common/types.h"
#include "kernels/elementwise/elementwise.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

template <class T>
void CrossLoop(const void* a, const void* b, void* out, int64_t vectors) {
  // Small and signed integers wrap around, 16-bit floats are computed as floats.
  using V =
      std::conditional_t<std::is_integral_v<T>, uint64_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* z = static_cast<T*>(out);
  for (int64_t i = 0; i < 3 * vectors; i += 3) {
    const V u0 = static_cast<V>(x[i]), u1 = static_cast<V>(x[i + 1]), u2 = static_cast<V>(x[i + 2]);
    const V v0 = static_cast<V>(y[i]), v1 = static_cast<V>(y[i + 1]), v2 = static_cast<V>(y[i + 2]);
    z[i] = static_cast<T>(u1 * v2 - u2 * v1);
    z[i + 1] = static_cast<T>(u2 * v0 - u0 * v2);
    z[i + 2] = static_cast<T>(u0 * v1 - u1 * v0);
  }
}

absl::Status Compute(KernelContext& ctx) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  if (!a.SameShape(b))
    return InvalidArgument("Both inputs must be of same shape: ", a.shape().DebugString(), " vs. ",
                           b.shape().DebugString());
  if (a.rank() < 1) return InvalidArgument("Input must be at least 1D");
  if (a.dim(a.rank() - 1) != 3) return FailedPrecondition("Cross-products are only defined for 3-element vectors.");
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, a.shape()));
  VisitNumeric(a.dtype(), 0, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool> && requires(T x) { x < x; })
      CrossLoop<T>(a.raw(), b.raw(), out->raw(), a.num_elements() / 3);
    return 0;
  });
  return absl::OkStatus();
}

}  // namespace

TROUPE_OP("Cross")
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("T: realnumbertype")
    .Shape(shape_fn::MergeAll)
    .Gradient([](GradientContext& g) {
      const math::Value a = math::In(g, 0), b = math::In(g, 1), d = math::Grad(g);
      return math::SetBoth(g, math::Apply("Cross", b, d), math::Apply("Cross", d, a));
    })
    .Doc("The cross products of the vectors of three in the innermost dimension.");

TROUPE_CPU_KERNEL("Cross").Function<Compute>();

}  // namespace troupe
