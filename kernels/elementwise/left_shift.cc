#include <type_traits>

#include "kernels/elementwise/shifts.h"

namespace troupe {
namespace {

struct LeftShiftFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << math::ShiftCount(y));
  }
};

const OpRegistrar op = math::ShiftOp("LeftShift").Doc("x shifted left by y bits, with broadcasting.");

}  // namespace

TROUPE_KERNEL("LeftShift")
    .Device("CPU")
    .Types("T", math::kIntegers)
    .Factory(math::BinaryFactory<math::ShiftTable<LeftShiftFn>>);

}  // namespace troupe
