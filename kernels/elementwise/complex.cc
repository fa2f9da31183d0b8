#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct ComplexFn {
  template <class T>
  static std::complex<T> Do(T re, T im) {
    return {re, im};
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = {};
    t[DType::kFloat] = {LoopVV<ComplexFn, float, std::complex<float>>, LoopSV<ComplexFn, float, std::complex<float>>,
                        LoopVS<ComplexFn, float, std::complex<float>>, 1};
    t[DType::kDouble] = {LoopVV<ComplexFn, double, std::complex<double>>,
                         LoopSV<ComplexFn, double, std::complex<double>>,
                         LoopVS<ComplexFn, double, std::complex<double>>, 1};
    return t;
  }();
  return table;
}

absl::StatusOr<PreparedKernel> Make(KernelInit& init) {
  if ((init.output_type(0) == DType::kComplex64) != (init.input_type(0) == DType::kFloat)) {
    return InvalidArgument("Tout must be made of parts of ", Name(init.input_type(0)), ", but is ",
                           Name(init.output_type(0)));
  }
  return BinaryFactory<Table>(init);
}

}  // namespace

TROUPE_OP("Complex")
    .Input("real: T")
    .Input("imag: T")
    .Output("out: Tout")
    .Attr("T: {float, double} = DT_FLOAT")
    .Attr("Tout: {complex64, complex128} = DT_COMPLEX64")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, PartOf("Real", Grad(g)), PartOf("Imag", Grad(g))); })
    .Doc("The complex number of these parts, with broadcasting.");

TROUPE_KERNEL("Complex").Device("CPU").Factory(Make);

}  // namespace troupe
