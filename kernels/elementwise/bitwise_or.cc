#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct BitwiseOrFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x | y);
  }
};
const OpRegistrar op = math::BitwiseOp("BitwiseOr").Doc("The bitwise or of x and y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("BitwiseOr")
    .Device("CPU")
    .Types("T", math::kIntegers)
    .Factory(math::BinaryFactory<math::BitwiseTable<BitwiseOrFn>>);

}  // namespace troupe
