#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct TanFn {
  template <class T>
  static T Do(T x) {
    return std::tan(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::ULoops<TanFn, float, double>(15);
    math::AddLoopsTo<TanFn, void, std::complex<float>, std::complex<double>>(&t, 60);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Tan")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      return SetUnary(g, Apply("Square", Apply("Reciprocal", Apply("Cos", Conj(In(g, 0))))) * Grad(g));
    })
    .Doc("The tangent of x.");

TROUPE_KERNEL("Tan").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
