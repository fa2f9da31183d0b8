#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

struct RightShiftFn {
  // Beyond the width of the type (or below zero) the count is taken as the nearest one that is possible.
  template <class T>
  static T Do(T x, T y) {
    constexpr T kMost = sizeof(T) * 8 - 1;
    const T count = y < T(0) ? T(0) : y > kMost ? kMost : y;
    return static_cast<T>(x >> count);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table =
      math::Loops<RightShiftFn, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(0.5);
  return table;
}

}  // namespace

TROUPE_OP("RightShift")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(TROUPE_T_INTEGERS)
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("it works on bits")
    .Doc("x shifted right by y bits, with broadcasting; signed types keep their sign.");

TROUPE_KERNEL("RightShift").Device("CPU").Types("T", math::kIntegers).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
