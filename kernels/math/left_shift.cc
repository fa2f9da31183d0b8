#include <type_traits>

#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

struct LeftShiftFn {
  // Beyond the width of the type (or below zero) the count is taken as the nearest one that is possible.
  template <class T>
  static T Do(T x, T y) {
    constexpr T kMost = sizeof(T) * 8 - 1;
    const T count = y < T(0) ? T(0) : y > kMost ? kMost : y;
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << count);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table =
      math::Loops<LeftShiftFn, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(0.5);
  return table;
}

}  // namespace

TROUPE_OP("LeftShift")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(TROUPE_T_INTEGERS)
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("it works on bits")
    .Doc("x shifted left by y bits, with broadcasting.");

TROUPE_KERNEL("LeftShift").Device("CPU").Types("T", math::kIntegers).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
