#include "kernels/elementwise/complex_parts.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct AngleFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return std::arg(x);
  }
};
const OpRegistrar op = PartOp("Angle")
                           .Gradient([](GradientContext& g) -> absl::Status {
                             const Value z =
                                 Apply("Reciprocal", MakeComplex(PartOf("Imag", In(g, 0)), PartOf("Real", In(g, 0))));
                             return SetUnary(g, -MakeComplex(Grad(g), Number(Grad(g), 0)) * z);
                           })
                           .Doc("The angle of a complex number, in (-pi, pi].");

}  // namespace

TROUPE_KERNEL("Angle").Device("CPU").Factory(math::PartFactory<AngleFn>);

}  // namespace troupe
