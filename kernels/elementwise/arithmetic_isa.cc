// Hot loops of the arithmetic functions of two arguments. Integers wrap around, so they are
// computed as unsigned.
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

struct AddFn {
  template <class T>
  static T Do(T a, T b) {
    return a + b;
  }
};
struct SubFn {
  template <class T>
  static T Do(T a, T b) {
    return a - b;
  }
};
struct MulFn {
  template <class T>
  static T Do(T a, T b) {
    return a * b;
  }
};
struct DivFn {
  template <class T>
  static T Do(T a, T b) {
    return a / b;
  }
};
// NaN wins, as in TensorFlow; of equal numbers the first.
struct MaxFn {
  template <class T>
  static T Do(T a, T b) {
    return a < b || b != b ? b : a;
  }
};
struct MinFn {
  template <class T>
  static T Do(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct SquaredDifferenceFn {
  template <class T>
  static T Do(T a, T b) {
    return (a - b) * (a - b);
  }
};

template <class F>
void FillFloats(HotLoops* l, HotBinary op, float cost) {
  Fill<F, float, float>(l, op, HotType::kFloat, cost);
  Fill<F, double, double>(l, op, HotType::kDouble, 2 * cost);
}
template <class F, class I32, class I64>
void FillInts(HotLoops* l, HotBinary op) {
  Fill<F, I32, I32>(l, op, HotType::kInt32, 0.2f);
  Fill<F, I64, I64>(l, op, HotType::kInt64, 0.4f);
}

}  // namespace

void TROUPE_ISA::FillArithmetic(HotLoops* l) {
  FillFloats<AddFn>(l, HotBinary::kAdd, 0.2f);
  FillFloats<SubFn>(l, HotBinary::kSub, 0.2f);
  FillFloats<MulFn>(l, HotBinary::kMul, 0.2f);
  FillFloats<DivFn>(l, HotBinary::kDiv, 0.3f);
  FillFloats<MaxFn>(l, HotBinary::kMaximum, 0.2f);
  FillFloats<MinFn>(l, HotBinary::kMinimum, 0.2f);
  FillFloats<SquaredDifferenceFn>(l, HotBinary::kSquaredDifference, 0.2f);
  FillInts<AddFn, uint32_t, uint64_t>(l, HotBinary::kAdd);
  FillInts<SubFn, uint32_t, uint64_t>(l, HotBinary::kSub);
  FillInts<MulFn, uint32_t, uint64_t>(l, HotBinary::kMul);
  FillInts<SquaredDifferenceFn, uint32_t, uint64_t>(l, HotBinary::kSquaredDifference);
  FillInts<MaxFn, int32_t, int64_t>(l, HotBinary::kMaximum);
  FillInts<MinFn, int32_t, int64_t>(l, HotBinary::kMinimum);
}

}  // namespace troupe::math
