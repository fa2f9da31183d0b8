#include <complex>
#include <vector>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ConjFn {
  template <class T>
  static T Do(const T& x) {
    return std::conj(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<ConjFn, std::complex<float>, std::complex<double>>(1);
  return table;
}

}  // namespace

TROUPE_OP("Conj")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: {complex64, complex128, variant} = DT_COMPLEX64")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("Conj", Grad(g))); })
    .Doc("The complex conjugate.");

TROUPE_KERNEL("Conj")
    .Device("CPU")
    .Types("T", std::vector<DType>{DType::kComplex64, DType::kComplex128})
    .Factory(math::UnaryFactory<Table>);

}  // namespace troupe
