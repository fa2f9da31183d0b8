#include <cmath>

#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct IsNanFn {
  template <class T>
  static bool Do(T x) {
    return std::isnan(x);
  }
};
const OpRegistrar op = math::FloatTestOp("IsNan").Doc("Whether x is not a number.");

}  // namespace

TROUPE_KERNEL("IsNan")
    .Device("CPU")
    .Types("T", math::kFloats)
    .Factory(math::UnaryFactory<math::FloatTestTable<IsNanFn>>);

}  // namespace troupe
