#include "kernels/elementwise/shifts.h"

namespace troupe {
namespace {

struct RightShiftFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x >> math::ShiftCount(y));
  }
};

const OpRegistrar op =
    math::ShiftOp("RightShift").Doc("x shifted right by y bits, with broadcasting; signed types keep their sign.");

}  // namespace

TROUPE_KERNEL("RightShift")
    .Device("CPU")
    .Types("T", math::kIntegers)
    .Factory(math::BinaryFactory<math::ShiftTable<RightShiftFn>>);

}  // namespace troupe
