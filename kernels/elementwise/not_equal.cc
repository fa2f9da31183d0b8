#include "kernels/elementwise/comparisons.h"

namespace troupe {
namespace {

struct NotEqualFn {
  template <class T>
  static bool Do(const T& x, const T& y) {
    return x != y;
  }
};
const OpRegistrar op = math::EqualityOp("NotEqual")
                           .Doc(
                               "x != y, with broadcasting. Shapes that do not broadcast are an error, or with "
                               "incompatible_shape_error = false give true.");

}  // namespace

TROUPE_KERNEL("NotEqual")
    .Device("CPU")
    .Types("T", math::EqualityTypes())
    .Factory(math::EqualityFactory<math::EqualityTable<NotEqualFn, math::HotBinary::kNotEqual>,
                                   math::BinaryShapes::kTrueIfNot>);

}  // namespace troupe
