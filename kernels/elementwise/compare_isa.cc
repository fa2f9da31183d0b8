// Hot loops of the comparisons. The output is bool, one byte.
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

struct EqualFn {
  template <class T>
  static bool Do(T a, T b) {
    return a == b;
  }
};
struct NotEqualFn {
  template <class T>
  static bool Do(T a, T b) {
    return a != b;
  }
};
struct LessFn {
  template <class T>
  static bool Do(T a, T b) {
    return a < b;
  }
};
struct LessEqualFn {
  template <class T>
  static bool Do(T a, T b) {
    return a <= b;
  }
};

template <class F>
void FillAll(HotLoops* l, HotBinary op) {
  Fill<F, float, bool>(l, op, HotType::kFloat, 0.2f);
  Fill<F, double, bool>(l, op, HotType::kDouble, 0.4f);
  Fill<F, int32_t, bool>(l, op, HotType::kInt32, 0.2f);
  Fill<F, int64_t, bool>(l, op, HotType::kInt64, 0.4f);
}

}  // namespace

void TROUPE_ISA::FillComparisons(HotLoops* l) {
  FillAll<EqualFn>(l, HotBinary::kEqual);
  FillAll<NotEqualFn>(l, HotBinary::kNotEqual);
  FillAll<LessFn>(l, HotBinary::kLess);
  FillAll<LessEqualFn>(l, HotBinary::kLessEqual);
}

}  // namespace troupe::math
