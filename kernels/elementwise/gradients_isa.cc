// Hot loops of the ops that turn a function's output y and the gradient dy of it into the gradient
// of its input.
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

struct TanhGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (T(1) - y * y);
  }
};
struct SigmoidGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return dy * (y * (T(1) - y));
  }
};
// A zero gradient stays zero where the derivative is infinite.
struct SqrtGradFn {
  template <class T>
  static T Do(T y, T dy) {
    const T d = T(0.5) * dy / y;
    return dy == T(0) ? T(0) : d;
  }
};
struct RsqrtGradFn {
  template <class T>
  static T Do(T y, T dy) {
    const T d = T(-0.5) * (dy * y) * (y * y);
    return dy == T(0) ? T(0) : d;
  }
};
struct InvGradFn {
  template <class T>
  static T Do(T y, T dy) {
    return -y * (dy * y);
  }
};

template <class F>
void FillBoth(HotLoops* l, HotBinary op) {
  Fill<F, float, float>(l, op, HotType::kFloat, 0.3f);
  Fill<F, double, double>(l, op, HotType::kDouble, 0.6f);
}

}  // namespace

void TROUPE_ISA::FillGradients(HotLoops* l) {
  FillBoth<TanhGradFn>(l, HotBinary::kTanhGrad);
  FillBoth<SigmoidGradFn>(l, HotBinary::kSigmoidGrad);
  FillBoth<SqrtGradFn>(l, HotBinary::kSqrtGrad);
  FillBoth<RsqrtGradFn>(l, HotBinary::kRsqrtGrad);
  FillBoth<InvGradFn>(l, HotBinary::kInvGrad);
}

}  // namespace troupe::math
