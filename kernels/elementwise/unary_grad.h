// What the gradients of unary functions in terms of their results share (SqrtGrad, TanhGrad, ...):
// z = f(y, dy), of one shape.
#ifndef TROUPE_KERNELS_ELEMENTWISE_UNARY_GRAD_H_
#define TROUPE_KERNELS_ELEMENTWISE_UNARY_GRAD_H_

#include <complex>
#include <string_view>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

// The hot loops of an op, and loops of Fn on complex numbers.
template <HotBinary kHot, class Fn>
const BinaryTable& UnaryGradTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(kHot);
    AddLoopsTo<Fn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

// Without gradient and doc.
inline OpBuilder UnaryGradOp(std::string_view name) {
  return OpBuilder(name)
      .Input("y: T")
      .Input("dy: T")
      .Output("z: T")
      .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
      .Shape(shape_fn::MergeAll);
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_UNARY_GRAD_H_
