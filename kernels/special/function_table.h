// The loops of an element-wise op that is one function of special_functions.h: it is computed in
// float64, and rounded to the op's type.
//
//   TROUPE_CPU_KERNEL("Zeta").Factory(BinaryFactory<TableOf<Zeta, 300>>);
//
// Thread rule: as of elementwise.h.
#ifndef TROUPE_KERNELS_SPECIAL_FUNCTION_TABLE_H_
#define TROUPE_KERNELS_SPECIAL_FUNCTION_TABLE_H_

#include "kernels/elementwise/elementwise.h"
#include "kernels/special/special_functions.h"

namespace troupe::math {

template <double (*f)(double, double)>
struct RoundedFn {
  template <class T>
  static T Do(T a, T b) {
    return static_cast<T>(f(a, b));
  }
};
// `cost_ns`: of an element.
template <double (*f)(double, double), int cost_ns>
const BinaryTable& TableOf() {
  static const BinaryTable table = Loops<RoundedFn<f>, float, double>(cost_ns);
  return table;
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_SPECIAL_FUNCTION_TABLE_H_
