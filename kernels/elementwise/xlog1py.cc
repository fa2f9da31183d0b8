#include "kernels/elementwise/zero_times.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct Xlog1pyFn {
  static float Log1p(float y) { return std::log1p(y); }
  static double Log1p(double y) { return std::log1p(y); }
  template <class T>
  static std::complex<T> Log1p(std::complex<T> y) {
    return std::log(T(1) + y);
  }
  template <class T>
  static T Do(T x, T y) {
    return x == T(0) ? T(0) : x * Log1p(y);
  }
};

const OpRegistrar op =
    math::ZeroTimesOp("Xlog1py")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value x = In(g, 0), y = In(g, 1);
          return SetBroadcast(g, Apply("Xlog1py", IsNotZero(x), y) * Grad(g), Apply("Xdivy", x, 1.0 + y) * Grad(g));
        })
        .Doc("x * log(1 + y), or 0 where x is 0; with broadcasting.");

}  // namespace

TROUPE_KERNEL("Xlog1py")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<math::ZeroTimesTable<Xlog1pyFn>>);

}  // namespace troupe
