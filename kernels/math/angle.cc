#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct AngleFn {
  template <class T> static T Do(const std::complex<T>& x) { return std::arg(x); }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = {};
    t[DType::kComplex64] = {LoopV<AngleFn, std::complex<float>, float>, 2};
    t[DType::kComplex128] = {LoopV<AngleFn, std::complex<double>, double>, 3};
    return t;
  }();
  return table;
}

// The output has the precision of the input.
absl::StatusOr<PreparedKernel> Make(KernelInit& init) {
  if ((init.input_type(0) == DType::kComplex64) != (init.output_type(0) == DType::kFloat)) {
    return InvalidArgument("Tout must be the type of the parts of ", Name(init.input_type(0)), ", but is ", Name(init.output_type(0)));
  }
  return UnaryFactory<Table>(init);
}

}  // namespace

TROUPE_OP("Angle")
    .Input("input: T")
    .Output("output: Tout")
    .Attr("T: {complex64, complex128} = DT_COMPLEX64")
    .Attr("Tout: {float, double} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value z = Apply("Reciprocal", MakeComplex(PartOf("Imag", In(g, 0)), PartOf("Real", In(g, 0))));
      return SetUnary(g, -MakeComplex(Grad(g), Number(Grad(g), 0)) * z);
    })
    .Doc("The angle of a complex number, in (-pi, pi].");

TROUPE_KERNEL("Angle").Device("CPU").Factory(Make);

}  // namespace troupe
