#include <cmath>
#include <type_traits>
#include <vector>

#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

struct ModFn {
  template <class T>
  static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      return y == T(-1) ? T(0) : static_cast<T>(x % y);
    } else {
      return std::fmod(x, y);
    }
  }
};
const std::vector<DType> kTypes = {DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<ModFn, float, double, int32_t, int64_t>(6);
  return table;
}

}  // namespace

TROUPE_OP("Mod")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {int32, int64, half, bfloat16, float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("TensorFlow defines none; FloorMod has one")
    .Doc("The remainder of the truncated division, with broadcasting: it has the sign of x.");

TROUPE_KERNEL("Mod")
    .Device("CPU")
    .Types("T", kTypes)
    .Factory(math::BinaryFactory<Table, math::BinaryShapes::kBroadcast, math::CheckNoIntegerZero>);

}  // namespace troupe
