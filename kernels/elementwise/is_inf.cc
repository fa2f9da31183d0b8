#include <cmath>

#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct IsInfFn {
  template <class T>
  static bool Do(T x) {
    return std::isinf(x);
  }
};
const OpRegistrar op = math::FloatTestOp("IsInf").Doc("Whether x is infinite.");

}  // namespace

TROUPE_KERNEL("IsInf")
    .Device("CPU")
    .Types("T", math::kFloats)
    .Factory(math::UnaryFactory<math::FloatTestTable<IsInfFn>>);

}  // namespace troupe
