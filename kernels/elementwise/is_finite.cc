#include <cmath>

#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct IsFiniteFn {
  template <class T>
  static bool Do(T x) {
    return std::isfinite(x);
  }
};
const OpRegistrar op = math::FloatTestOp("IsFinite").Doc("Whether x is neither infinite nor NaN.");

}  // namespace

TROUPE_KERNEL("IsFinite")
    .Device("CPU")
    .Types("T", math::kFloats)
    .Factory(math::UnaryFactory<math::FloatTestTable<IsFiniteFn>>);

}  // namespace troupe
