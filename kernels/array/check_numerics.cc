// CheckNumerics and CheckNumericsV2: their input, or an error when it has a NaN or an infinity.
#include <atomic>
#include <cmath>

#include "kernels/common/op_file.h"
#include "kernels/common/types.h"

namespace troupe::array {
namespace {

enum FoundNumbers : int { kNaN = 1, kPositive = 2, kNegative = 4 };

template <class T>
int Look(KernelContext& ctx, const Tensor& t) {
  std::atomic<int> found{0};
  const T* x = t.data<T>();
  ctx.threads()->ParallelFor(t.num_elements(), 0.3, [&](int64_t begin, int64_t end) {
    // x * 0 is 0 exactly for finite x: a sum that vectorizes decides the common case.
    bool bad = false;
    for (int64_t i = begin; i < end; ++i)
      bad |= !(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(x[i]) * 0 == 0);
    if (!bad) return;
    int here = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double v = x[i];
      if (std::isnan(v))
        here |= kNaN;
      else if (std::isinf(v))
        here |= v > 0 ? kPositive : kNegative;
    }
    found.fetch_or(here);
  });
  return found.load();
}

// `signs`: whether the error tells the two infinities apart.
template <bool signs>
class CheckNumericsKernel {
 public:
  explicit CheckNumericsKernel(KernelInit& init) : message_(init.Attr<std::string>("message")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    const int found = VisitNumeric(in.dtype(), 0, [&]<class T>() {
      if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        return Look<T>(ctx, in);
      return 0;
    });
    if (found == 0) return PassOn(ctx);
    std::string what;
    auto add = [&](std::string_view one) { StrAppend(&what, what.empty() ? "" : ", ", one); };
    if (signs && (found & kNegative)) add("-Inf");
    if (signs && (found & kPositive)) add("+Inf");
    if (!signs && (found & (kPositive | kNegative))) add("Inf");
    if (found & kNaN) add("NaN");
    return InvalidArgument(message_, " : Tensor had ", what, " values");
  }

 private:
  const std::string message_;
};

absl::Status CheckNumericsGradient(GradientContext& g) {
  const std::string message =
      StrCat("Not a number (NaN) or infinity (Inf) values detected in gradient. ", g.Attr<std::string>("message"));
  g.Set(0, g.Op(g.node().op().name, {g.Grad(0)}, {{"message", message}}));
  return g.status();
}

TROUPE_OP("CheckNumerics")
    .Input("tensor: T")
    .Output("output: T")
    .Attr(TROUPE_T_FLOATS)
    .Attr("message: string")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .Gradient(CheckNumericsGradient)
    .Doc("`tensor`; INVALID_ARGUMENT with `message` when it has a NaN or an infinity.");
TROUPE_KERNEL("CheckNumerics").Device("CPU").Class<CheckNumericsKernel<false>>();

TROUPE_OP("CheckNumericsV2")
    .Input("tensor: T")
    .Output("output: T")
    .Attr(TROUPE_T_FLOATS)
    .Attr("message: string")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .Gradient(CheckNumericsGradient)
    .Doc("As CheckNumerics; the error tells -Inf from +Inf.");
TROUPE_KERNEL("CheckNumericsV2").Device("CPU").Class<CheckNumericsKernel<true>>();

}  // namespace
}  // namespace troupe::array
