// Hot loops of the cheap functions of one argument. Integers wrap around.
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

struct NegFn {
  template <class T>
  static T Do(T x) {
    return -x;
  }
};
struct SquareFn {
  template <class T>
  static T Do(T x) {
    return x * x;
  }
};
struct AbsFn {
  static float Do(float x) { return __builtin_fabsf(x); }
  static double Do(double x) { return __builtin_fabs(x); }
  static int32_t Do(int32_t x) {
    return static_cast<int32_t>(x < 0 ? 0u - static_cast<uint32_t>(x) : static_cast<uint32_t>(x));
  }
  static int64_t Do(int64_t x) {
    return static_cast<int64_t>(x < 0 ? 0ul - static_cast<uint64_t>(x) : static_cast<uint64_t>(x));
  }
};
struct SqrtFn {
  static float Do(float x) { return __builtin_sqrtf(x); }
  static double Do(double x) { return __builtin_sqrt(x); }
};
struct RsqrtFn {
  template <class T>
  static T Do(T x) {
    return T(1) / SqrtFn::Do(x);
  }
};
struct InvFn {
  template <class T>
  static T Do(T x) {
    return T(1) / x;
  }
};

template <class F>
void FillFloats(HotLoops* l, HotUnary op, float cost) {
  Fill<F, float>(l, op, HotType::kFloat, cost);
  Fill<F, double>(l, op, HotType::kDouble, 2 * cost);
}
template <class F, class I32, class I64>
void FillInts(HotLoops* l, HotUnary op) {
  Fill<F, I32>(l, op, HotType::kInt32, 0.2f);
  Fill<F, I64>(l, op, HotType::kInt64, 0.4f);
}

}  // namespace

void TROUPE_ISA::FillUnary(HotLoops* l) {
  FillFloats<NegFn>(l, HotUnary::kNeg, 0.2f);
  FillFloats<SquareFn>(l, HotUnary::kSquare, 0.2f);
  FillFloats<AbsFn>(l, HotUnary::kAbs, 0.2f);
  FillFloats<SqrtFn>(l, HotUnary::kSqrt, 0.5f);
  FillFloats<RsqrtFn>(l, HotUnary::kRsqrt, 0.7f);
  FillFloats<InvFn>(l, HotUnary::kInv, 0.4f);
  FillInts<NegFn, uint32_t, uint64_t>(l, HotUnary::kNeg);
  FillInts<SquareFn, uint32_t, uint64_t>(l, HotUnary::kSquare);
  FillInts<AbsFn, int32_t, int64_t>(l, HotUnary::kAbs);
}

}  // namespace troupe::math
