// What Mod and TruncateMod, two names of one op, share.
#ifndef TROUPE_KERNELS_ELEMENTWISE_TRUNCATED_REMAINDER_H_
#define TROUPE_KERNELS_ELEMENTWISE_TRUNCATED_REMAINDER_H_

#include <cmath>
#include <string_view>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

struct TruncatedRemainder {
  template <class T>
  static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return y == T(-1) ? T(0) : static_cast<T>(x % y);
    } else {
      return std::fmod(x, y);
    }
  }
};
inline constexpr std::array kTruncatedRemainderTypes = {DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64};
inline const BinaryTable& TruncatedRemainderTable() {
  static const BinaryTable table = Loops<TruncatedRemainder, float, double, int32_t, int64_t>(6);
  return table;
}

// `types` as in the definitions, which name the same ones in different orders.
inline OpBuilder TruncatedRemainderOp(std::string_view name, std::string_view types) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(types)
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("TensorFlow defines none; FloorMod has one")
      .Doc("The remainder of the truncated division, with broadcasting: it has the sign of x.");
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_TRUNCATED_REMAINDER_H_
