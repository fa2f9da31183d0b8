#include "kernels/elementwise/complex_parts.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct RealFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return x.real();
  }
};
const OpRegistrar op =
    PartOp("Real")
        .Gradient([](GradientContext& g) { return SetUnary(g, MakeComplex(Grad(g), Number(Grad(g), 0))); })
        .Doc("The real part of a complex number.");

}  // namespace

TROUPE_KERNEL("Real").Device("CPU").Factory(math::PartFactory<RealFn>);

}  // namespace troupe
