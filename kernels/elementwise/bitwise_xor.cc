#include "kernels/elementwise/bits.h"

namespace troupe {
namespace {

struct BitwiseXorFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x ^ y);
  }
};
const OpRegistrar op = math::BitwiseOp("BitwiseXor").Doc("The bitwise exclusive or of x and y, with broadcasting.");

}  // namespace

TROUPE_KERNEL("BitwiseXor")
    .Device("CPU")
    .Types("T", math::kIntegers)
    .Factory(math::BinaryFactory<math::BitwiseTable<BitwiseXorFn>>);

}  // namespace troupe
