#include "kernels/elementwise/comparisons.h"

namespace troupe {
namespace {

struct EqualFn {
  template <class T>
  static bool Do(const T& x, const T& y) {
    return x == y;
  }
};
const OpRegistrar op = math::EqualityOp("Equal").Doc(
    "x == y, with broadcasting. Shapes that do not broadcast are an error, or with incompatible_shape_error = false "
    "give false.");

}  // namespace

TROUPE_KERNEL("Equal")
    .Device("CPU")
    .Types("T", math::EqualityTypes())
    .Factory(
        math::EqualityFactory<math::EqualityTable<EqualFn, math::HotBinary::kEqual>, math::BinaryShapes::kFalseIfNot>);

}  // namespace troupe
