#include "kernels/elementwise/comparisons.h"

namespace troupe {
namespace {

struct LessEqualFn {
  template <class T>
  static bool Do(T x, T y) {
    return x <= y;
  }
};
const OpRegistrar op = math::OrderOp("LessEqual").Doc("x <= y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("LessEqual")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<math::OrderTable<LessEqualFn, math::HotBinary::kLessEqual>>);

}  // namespace troupe
