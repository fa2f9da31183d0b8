#include <cmath>
#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct FloorModFn {
  // The remainder has the sign of y.
  template <class T>
  static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T> && !std::is_signed_v<T>) {
      return static_cast<T>(x % y);
    } else {
      T r;
      if constexpr (std::is_integral_v<T>) {
        r = y == T(-1) ? T(0) : static_cast<T>(x % y);
      } else {
        r = std::fmod(x, y);
      }
      return r != T(0) && (r < T(0)) != (y < T(0)) ? static_cast<T>(r + y) : r;
    }
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table =
      math::Loops<FloorModFn, float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(
          6);
  return table;
}

}  // namespace

TROUPE_OP("FloorMod")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, half, float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) {
      return SetBroadcast(g, Grad(g), -(Grad(g) * Apply("FloorDiv", In(g, 0), In(g, 1))));
    })
    .Doc("x - floor(x / y) * y with broadcasting: the remainder has the sign of y.");

TROUPE_KERNEL("FloorMod")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kBroadcast, math::CheckNoIntegerZero>);

}  // namespace troupe
