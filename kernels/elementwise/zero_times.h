// What Xdivy, Xlogy and Xlog1py share: f(x, y) that is 0 where x is 0, whatever y is.
#ifndef TROUPE_KERNELS_ELEMENTWISE_ZERO_TIMES_H_
#define TROUPE_KERNELS_ELEMENTWISE_ZERO_TIMES_H_

#include <cmath>
#include <complex>
#include <string_view>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

template <class Fn>
const BinaryTable& ZeroTimesTable() {
  static const BinaryTable table = Loops<Fn, float, double, std::complex<float>, std::complex<double>>(15);
  return table;
}

// 1 where the op's x is not 0, in its type.
inline Value IsNotZero(const Value& x) { return CastLike(Apply("NotEqual", x, Number(x, 0)), x); }

// Without gradient and doc.
inline OpBuilder ZeroTimesOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr("T: {half, bfloat16, float, double, complex64, complex128}")
      .Shape(shape_fn::BroadcastBinary);
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_ZERO_TIMES_H_
