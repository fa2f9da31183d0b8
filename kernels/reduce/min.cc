#include "kernels/math/extremes.h"

namespace troupe {
namespace {

struct MinFn {
  template <class T>
  static T Last() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class T>
  static bool Before(T a, T b) {
    return a < b;
  }
};
const OpRegistrar op = math::ExtremeOp("Min").Doc(
    "The smallest element over the axes in reduction_indices; NaN when one of the elements is. Equal extremes share "
    "the gradient.");

}  // namespace

TROUPE_KERNEL("Min")
    .Device("CPU")
    .Types("T", math::kReals)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<math::ExtremeTable<MinFn, math::HotReduce::kMin>>);

}  // namespace troupe
