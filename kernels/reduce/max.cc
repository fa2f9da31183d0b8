#include "kernels/math/extremes.h"

namespace troupe {
namespace {

struct MaxFn {
  template <class T>
  static T Last() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class T>
  static bool Before(T a, T b) {
    return b < a;
  }
};
const OpRegistrar op = math::ExtremeOp("Max").Doc(
    "The largest element over the axes in reduction_indices; NaN when one of the elements is. Equal extremes share the "
    "gradient.");

}  // namespace

TROUPE_KERNEL("Max")
    .Device("CPU")
    .Types("T", math::kReals)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<math::ExtremeTable<MaxFn, math::HotReduce::kMax>>);

}  // namespace troupe
