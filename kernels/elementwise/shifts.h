// What LeftShift and RightShift share: how far, and on which types.
#ifndef TROUPE_KERNELS_ELEMENTWISE_SHIFTS_H_
#define TROUPE_KERNELS_ELEMENTWISE_SHIFTS_H_

#include <string_view>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

// Beyond the width of the type (or below zero) the count is taken as the nearest one that is
// possible.
template <class T>
T ShiftCount(T y) {
  constexpr T kMost = sizeof(T) * 8 - 1;
  return y < T(0) ? T(0) : y > kMost ? kMost : y;
}

template <class Fn>
const BinaryTable& ShiftTable() {
  static const BinaryTable table =
      Loops<Fn, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(0.5);
  return table;
}

// Without doc.
inline OpBuilder ShiftOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(TROUPE_T_INTEGERS)
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("it works on bits");
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_SHIFTS_H_
