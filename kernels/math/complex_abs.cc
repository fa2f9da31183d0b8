#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ComplexAbsFn {
  template <class T> static T Do(const std::complex<T>& x) { return std::abs(x); }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = {};
    t[DType::kComplex64] = {LoopV<ComplexAbsFn, std::complex<float>, float>, 2};
    t[DType::kComplex128] = {LoopV<ComplexAbsFn, std::complex<double>, double>, 3};
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

TROUPE_OP("ComplexAbs")
    .Input("x: T")
    .Output("y: Tout")
    .Attr("T: {complex64, complex128} = DT_COMPLEX64")
    .Attr("Tout: {float, double} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value dy = Grad(g), y = Out(g), zero = Number(dy, 0);
      return SetUnary(g, Apply("DivNoNan", MakeComplex(dy, zero) * In(g, 0), MakeComplex(y, zero)));
    })
    .Doc("The magnitude of a complex number.");

TROUPE_KERNEL("ComplexAbs").Device("CPU").Factory(Make);

}  // namespace troupe
