// Remainders: FloorMod, and Mod and TruncateMod, two names of one op.
#include <cmath>
#include <string_view>
#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

template <const BinaryTable& (*Table)()>
constexpr KernelFactory kRemainder = BinaryFactory<Table, BinaryShapes::kBroadcast, CheckNoIntegerZero>;

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
const BinaryTable& FloorModTable() {
  static const BinaryTable table =
      Loops<FloorModFn, float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(6);
  return table;
}
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
TROUPE_CPU_KERNEL("FloorMod").Factory(kRemainder<FloorModTable>);

struct TruncateModFn {
  template <class T>
  static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return y == T(-1) ? T(0) : static_cast<T>(x % y);
    } else {
      return std::fmod(x, y);
    }
  }
};
const BinaryTable& TruncateModTable() {
  static const BinaryTable table = Loops<TruncateModFn, float, double, int32_t, int64_t>(6);
  return table;
}
// `types` as in the definitions, which name the same ones in different orders.
OpBuilder TruncateModOp(std::string_view name, std::string_view types) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(types)
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("TensorFlow defines none; FloorMod has one")
      .Doc("The remainder of the truncated division, with broadcasting: it has the sign of x.");
}
const OpRegistrar truncate_mod = TruncateModOp("TruncateMod", "T: {int32, int64, bfloat16, half, float, double}");
TROUPE_KERNEL("TruncateMod")
    .Device("CPU")
    .Type<float, double, int32_t, int64_t>("T")
    .Factory(kRemainder<TruncateModTable>);
const OpRegistrar mod = TruncateModOp("Mod", "T: {int32, int64, half, bfloat16, float, double}");
TROUPE_KERNEL("Mod").Device("CPU").Type<float, double, int32_t, int64_t>("T").Factory(kRemainder<TruncateModTable>);

}  // namespace
}  // namespace troupe::math
