#include "kernels/elementwise/reciprocals.h"

namespace troupe::math {
namespace {

struct ReciprocalFn {
  template <class T>
  static T Do(T x) {
    return T(1) / x;
  }
};
struct GradFn {
  template <class T>
  static T Do(T y, T dy) {
    return -std::conj(y) * (dy * std::conj(y));
  }
};

}  // namespace

const UnaryTable& ReciprocalTable() {
  static const UnaryTable table = [] {
    UnaryTable t = HotTable(HotUnary::kInv);
    AddLoopsTo<ReciprocalFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

const BinaryTable& ReciprocalGradTable() { return UnaryGradTable<HotBinary::kInvGrad, GradFn>(); }

}  // namespace troupe::math
