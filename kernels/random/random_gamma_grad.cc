// RandomGammaGrad: how a sample of a gamma distribution moves with its shape parameter.
#include "kernels/elementwise/elementwise.h"
#include "kernels/special/special_functions.h"

namespace troupe {
namespace {

struct SampleGradFn {
  template <class T>
  static T Do(T alpha, T sample) {
    return static_cast<T>(math::GammaSampleGrad(alpha, sample));
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<SampleGradFn, float, double>(500);
  return table;
}

}  // namespace

TROUPE_OP("RandomGammaGrad")
    .Input("alpha: T")
    .Input("sample: T")
    .Output("output: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("TensorFlow defines no gradient for it")
    .Doc(
        "The derivative of a sample of the gamma distribution with respect to its parameter alpha, with broadcasting: "
        "the sample moves\n"
        "so that as much of the distribution lies below it as before.");

TROUPE_KERNEL("RandomGammaGrad").Device("CPU").Type<float, double>("T").Factory(math::BinaryFactory<Table>);

}  // namespace troupe
