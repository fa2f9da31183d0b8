// What the ops share that make a real number of a complex one: Real, Imag, ComplexAbs, Angle.
#ifndef TROUPE_KERNELS_ELEMENTWISE_COMPLEX_PARTS_H_
#define TROUPE_KERNELS_ELEMENTWISE_COMPLEX_PARTS_H_

#include <complex>
#include <string_view>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

// The definition, without gradient and doc; ComplexAbs names its args otherwise.
inline OpBuilder PartOp(std::string_view name, std::string_view input = "input: T",
                        std::string_view output = "output: Tout") {
  return OpBuilder(name)
      .Input(input)
      .Output(output)
      .Attr("T: {complex64, complex128} = DT_COMPLEX64")
      .Attr("Tout: {float, double} = DT_FLOAT")
      .Shape(shape_fn::Unchanged);
}

// The kernel of F::Do(complex) -> real. The output has the precision of the input.
template <class F>
absl::StatusOr<PreparedKernel> PartFactory(KernelInit& init) {
  static const UnaryTable table = [] {
    UnaryTable t = {};
    t[DType::kComplex64] = {LoopV<F, std::complex<float>, float>, 2};
    t[DType::kComplex128] = {LoopV<F, std::complex<double>, double>, 3};
    return t;
  }();
  if ((init.input_type(0) == DType::kComplex64) != (init.output_type(0) == DType::kFloat)) {
    return InvalidArgument("Tout must be the type of the parts of ", Name(init.input_type(0)), ", but is ",
                           Name(init.output_type(0)));
  }
  return MakeUnary(init, table);
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_COMPLEX_PARTS_H_
