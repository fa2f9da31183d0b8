#include "kernels/elementwise/comparisons.h"

namespace troupe {
namespace {

struct LessFn {
  template <class T>
  static bool Do(T x, T y) {
    return x < y;
  }
};
const OpRegistrar op = math::OrderOp("Less").Doc("x < y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("Less")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<math::OrderTable<LessFn, math::HotBinary::kLess>>);

}  // namespace troupe
