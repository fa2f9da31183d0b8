#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct SigmoidFn {
  // e^-|x| cannot overflow, and keeps the precision of the tail towards zero.
  static double Do(double x) {
    const double e = std::exp(-std::abs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
  }
  template <class T>
  static T Do(T x) {
    return T(1) / (T(1) + std::exp(-x));
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kSigmoid);
    math::AddLoopsTo<SigmoidFn, void, double, std::complex<float>, std::complex<double>>(&t, 12);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Sigmoid")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS_AND_COMPLEX)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("SigmoidGrad", Conj(Out(g)), Grad(g))); })
    .Doc("1 / (1 + exp(-x)).");

TROUPE_KERNEL("Sigmoid").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
