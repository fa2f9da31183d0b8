#include <cmath>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

struct TruncateDivFn {
  template <class T>
  static T Do(T x, T y) {
    if constexpr (!std::is_integral_v<T>) {
      return std::trunc(x / y);
    } else if constexpr (std::is_signed_v<T>) {
      // The lowest number divided by -1 wraps around to itself.
      return y == T(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)) : static_cast<T>(x / y);
    } else {
      return static_cast<T>(x / y);
    }
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<TruncateDivFn, float, double, int8_t, int16_t, int32_t, int64_t,
                                                     uint8_t, uint16_t, uint32_t, uint64_t>(3);
  return table;
}

}  // namespace

TROUPE_OP("TruncateDiv")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, "
        "complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient(NoGradientFlows)  // piecewise constant
    .Doc("x / y truncated towards zero, with broadcasting; a zero divisor of integers is an error.");

TROUPE_KERNEL("TruncateDiv")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kBroadcast, math::CheckNoIntegerZero>);

}  // namespace troupe
