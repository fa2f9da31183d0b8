#include "kernels/elementwise/complex_parts.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ImagFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return x.imag();
  }
};
const OpRegistrar op =
    PartOp("Imag")
        .Gradient([](GradientContext& g) { return SetUnary(g, MakeComplex(Number(Grad(g), 0), Grad(g))); })
        .Doc("The imaginary part of a complex number.");

}  // namespace

TROUPE_KERNEL("Imag").Device("CPU").Factory(math::PartFactory<ImagFn>);

}  // namespace troupe
