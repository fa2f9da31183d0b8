#include "kernels/elementwise/complex_parts.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ComplexAbsFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return std::abs(x);
  }
};
const OpRegistrar op =
    PartOp("ComplexAbs", "x: T", "y: Tout")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value dy = Grad(g), y = Out(g), zero = Number(dy, 0);
          return SetUnary(g, Apply("DivNoNan", MakeComplex(dy, zero) * In(g, 0), MakeComplex(y, zero)));
        })
        .Doc("The magnitude of a complex number.");

}  // namespace

TROUPE_KERNEL("ComplexAbs").Device("CPU").Factory(math::PartFactory<ComplexAbsFn>);

}  // namespace troupe
