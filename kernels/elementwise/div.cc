#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct DivFn {
  // The lowest number divided by -1 wraps around to itself; the processor would trap.
  template <class T>
  static T Do(T x, T y) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      return y == T(-1) ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x)) : static_cast<T>(x / y);
    } else {
      return static_cast<T>(x / y);
    }
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kDiv);
    math::AddLoopsTo<DivFn, void, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 3);
    math::AddLoopsTo<DivFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Div")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, "
        "complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value x = Conj(In(g, 0)), y = Conj(In(g, 1)), dz = Grad(g);
      return SetBroadcast(g, dz / y, dz * ((-x / y) / y));
    })
    .Doc("x / y with broadcasting; integers are truncated towards zero, and a zero divisor is an error.");

TROUPE_KERNEL("Div")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kBroadcast, math::CheckNoIntegerZero>);

}  // namespace troupe
