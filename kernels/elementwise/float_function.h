// What functions of one real or complex number share: definition and loops.
//
// Thread rule: tables are immutable once made; any thread may ask for them.
#ifndef TROUPE_KERNELS_ELEMENTWISE_FLOAT_FUNCTION_H_
#define TROUPE_KERNELS_ELEMENTWISE_FLOAT_FUNCTION_H_

#include <complex>
#include <string_view>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

// y = f(x). Without gradient and doc.
inline OpBuilder FunctionOp(std::string_view name) {
  return OpBuilder(name).Input("x: T").Output("y: T").Attr(TROUPE_T_FLOATS_AND_COMPLEX).Shape(shape_fn::Unchanged);
}
// Loops of F::Do(x), a function of the C library, on all types that are computed in.
template <class F>
const UnaryTable& SlowTable() {
  static const UnaryTable table = [] {
    UnaryTable t = ULoops<F, float, double>(15);
    AddLoopsTo<F, void, std::complex<float>, std::complex<double>>(&t, 60);
    return t;
  }();
  return table;
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_FLOAT_FUNCTION_H_
