#include "kernels/elementwise/comparisons.h"

namespace troupe {
namespace {

struct GreaterFn {
  template <class T>
  static bool Do(T x, T y) {
    return y < x;
  }
};
const OpRegistrar op = math::OrderOp("Greater").Doc("x > y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("Greater")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<math::OrderTable<GreaterFn>>);

}  // namespace troupe
