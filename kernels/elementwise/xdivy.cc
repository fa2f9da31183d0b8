#include "kernels/elementwise/zero_times.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct XdivyFn {
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x / y;
  }
};

const OpRegistrar op = math::ZeroTimesOp("Xdivy")
                           .Gradient([](GradientContext& g) -> absl::Status {
                             const Value x = In(g, 0), y = In(g, 1);
                             return SetBroadcast(g, Apply("Xdivy", IsNotZero(x), y) * Grad(g),
                                                 Apply("Xdivy", -x, Apply("Square", y)) * Grad(g));
                           })
                           .Doc("x / y, or 0 where x is 0; with broadcasting.");

}  // namespace

TROUPE_KERNEL("Xdivy")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<math::ZeroTimesTable<XdivyFn>>);

}  // namespace troupe
