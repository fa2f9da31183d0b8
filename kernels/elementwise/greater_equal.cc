#include "kernels/elementwise/comparisons.h"

namespace troupe {
namespace {

struct GreaterEqualFn {
  template <class T>
  static bool Do(T x, T y) {
    return y <= x;
  }
};
const OpRegistrar op = math::OrderOp("GreaterEqual").Doc("x >= y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("GreaterEqual")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<math::OrderTable<GreaterEqualFn>>);

}  // namespace troupe
