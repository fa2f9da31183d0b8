#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct BitwiseAndFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x & y);
  }
};
const OpRegistrar op = math::BitwiseOp("BitwiseAnd").Doc("The bitwise and of x and y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("BitwiseAnd")
    .Device("CPU")
    .Types("T", math::kIntegers)
    .Factory(math::BinaryFactory<math::BitwiseTable<BitwiseAndFn>>);

}  // namespace troupe
