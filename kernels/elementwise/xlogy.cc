#include "kernels/elementwise/zero_times.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct XlogyFn {
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x * std::log(y);
  }
};

const OpRegistrar op =
    math::ZeroTimesOp("Xlogy")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value x = In(g, 0), y = In(g, 1);
          return SetBroadcast(g, Apply("Xlogy", IsNotZero(x), y) * Grad(g), Apply("Xdivy", x, y) * Grad(g));
        })
        .Doc("x * log(y), or 0 where x is 0; with broadcasting.");

}  // namespace

TROUPE_KERNEL("Xlogy")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<math::ZeroTimesTable<XlogyFn>>);

}  // namespace troupe
