// LinSpace: numbers at equal distances from start to stop, both included.
#include "kernels/common/op_file.h"
#include "kernels/common/types.h"

namespace troupe::array {
namespace {

absl::Status LinSpaceShape(InferenceContext& c) {
  for (int i = 0; i < 3; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  TROUPE_ASSIGN_OR_RETURN(const KnownInt num, ConstantScalar(c, 2, "num"));
  if (num.known && num.value <= 0) return InvalidArgument("requires num > 0: ", num.value);
  c.set_output(0, PartialTensorShape{num.known ? num.value : -1});
  return absl::OkStatus();
}

absl::Status ComputeLinSpace(KernelContext& ctx) {
  for (int i = 0; i < 3; ++i) {
    if (ctx.input(i).rank() != 0)
      return InvalidArgument("start, stop and num must be scalars, but input ", i, " has shape ",
                             ctx.input(i).shape().DebugString());
  }
  const int64_t n = IntAt(ctx.input(2));
  if (n <= 0) return InvalidArgument("requires num > 0: ", n);
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({n})));
  VisitNumeric(out->dtype(), false, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const W start = ctx.input(0).scalar<T>(), stop = ctx.input(1).scalar<T>();
      T* y = out->data<T>();
      const W step = n > 1 ? (stop - start) / static_cast<W>(n - 1) : W(0);
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(start + step * static_cast<W>(i));
      // The ends are exact whatever the step was rounded to, or whether it is a number.
      y[0] = static_cast<T>(start);
      if (n > 1) y[n - 1] = static_cast<T>(stop);
    }
    return true;
  });
  return absl::OkStatus();
}

TROUPE_OP("LinSpace")
    .Input("start: T")
    .Input("stop: T")
    .Input("num: Tidx")
    .Output("output: T")
    .Attr(TROUPE_T_FLOATS)
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(LinSpaceShape)
    .NotDifferentiable("TensorFlow defines no gradient either; build it from Range, Mul and Add where one is needed")
    .Doc("`num` numbers at equal distances from `start` to `stop`, both included.");
TROUPE_KERNEL("LinSpace").Device("CPU").HostMemory("num").Function<ComputeLinSpace>();

}  // namespace
}  // namespace troupe::array
