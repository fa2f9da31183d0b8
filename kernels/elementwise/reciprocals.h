// What Inv and Reciprocal, two names of one op, share, and their gradients.
#ifndef TROUPE_KERNELS_ELEMENTWISE_RECIPROCALS_H_
#define TROUPE_KERNELS_ELEMENTWISE_RECIPROCALS_H_

#include <string_view>

#include "kernels/elementwise/unary_grad.h"

namespace troupe::math {

inline OpBuilder ReciprocalOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Output("y: T")
      .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}")
      .Shape(shape_fn::Unchanged)
      .Gradient([](GradientContext& g) { return SetUnary(g, Apply("ReciprocalGrad", Out(g), Grad(g))); })
      .Doc("1 / x.");
}
const UnaryTable& ReciprocalTable();

// Without doc.
inline OpBuilder ReciprocalGradOp(std::string_view name) {
  return UnaryGradOp(name).Gradient([](GradientContext& g) -> absl::Status {
    const Value y = Conj(In(g, 0)), d = Grad(g);
    return SetBoth(g, -2.0 * (Conj(d) * In(g, 1) * y), Apply("ReciprocalGrad", y, d));
  });
}
const BinaryTable& ReciprocalGradTable();

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_RECIPROCALS_H_
