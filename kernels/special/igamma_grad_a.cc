// IgammaGradA: how the lower incomplete gamma integral moves with its parameter.
#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/special/special_functions.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct IgammaGradAFn {
  template <class T>
  static T Do(T a, T x) {
    return static_cast<T>(math::IgammaGradA(a, x));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<IgammaGradAFn, float, double>(500);
  return table;
}

}  // namespace

TROUPE_OP("IgammaGradA")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc("The derivative of Igamma(a, x) with respect to a, with broadcasting.");

TROUPE_KERNEL("IgammaGradA").Device("CPU").Type<float, double>("T").Factory(math::BinaryFactory<Table>);

}  // namespace troupe
