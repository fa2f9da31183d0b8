#include <complex>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ImagFn {
  template <class T> static T Do(const std::complex<T>& x) { return x.imag(); }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = {};
    t[DType::kComplex64] = {LoopV<ImagFn, std::complex<float>, float>, 2};
    t[DType::kComplex128] = {LoopV<ImagFn, std::complex<double>, double>, 3};
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

TROUPE_OP("Imag")
    .Input("input: T")
    .Output("output: Tout")
    .Attr("T: {complex64, complex128} = DT_COMPLEX64")
    .Attr("Tout: {float, double} = DT_FLOAT")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, MakeComplex(Number(Grad(g), 0), Grad(g))); })
    .Doc("The imaginary part of a complex number.");

TROUPE_KERNEL("Imag").Device("CPU").Factory(Make);

}  // namespace troupe
