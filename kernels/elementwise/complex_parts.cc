// Complex numbers: Complex makes them of their parts; Real, Imag, Angle and ComplexAbs take them
// apart; Conj.
#include <complex>
#include <string_view>
#include <vector>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// The definition, without gradient and doc; ComplexAbs names its args otherwise.
OpBuilder PartOp(std::string_view name, std::string_view input = "input: T", std::string_view output = "output: Tout") {
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

struct RealFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return x.real();
  }
};
const OpRegistrar real_op =
    PartOp("Real")
        .Gradient([](GradientContext& g) { return SetUnary(g, MakeComplex(Grad(g), Number(Grad(g), 0))); })
        .Doc("The real part of a complex number.");

TROUPE_KERNEL("Real").Device("CPU").Factory(PartFactory<RealFn>);

struct ImagFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return x.imag();
  }
};
const OpRegistrar imag_op =
    PartOp("Imag")
        .Gradient([](GradientContext& g) { return SetUnary(g, MakeComplex(Number(Grad(g), 0), Grad(g))); })
        .Doc("The imaginary part of a complex number.");

TROUPE_KERNEL("Imag").Device("CPU").Factory(PartFactory<ImagFn>);

struct AngleFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return std::arg(x);
  }
};
const OpRegistrar angle =
    PartOp("Angle")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value z = Apply("Reciprocal", MakeComplex(PartOf("Imag", In(g, 0)), PartOf("Real", In(g, 0))));
          return SetUnary(g, -MakeComplex(Grad(g), Number(Grad(g), 0)) * z);
        })
        .Doc("The angle of a complex number, in (-pi, pi].");

TROUPE_KERNEL("Angle").Device("CPU").Factory(PartFactory<AngleFn>);

struct ComplexAbsFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return std::abs(x);
  }
};
const OpRegistrar complex_abs =
    PartOp("ComplexAbs", "x: T", "y: Tout")
        .Gradient([](GradientContext& g) -> absl::Status {
          const Value dy = Grad(g), y = Out(g), zero = Number(dy, 0);
          return SetUnary(g, Apply("DivNoNan", MakeComplex(dy, zero) * In(g, 0), MakeComplex(y, zero)));
        })
        .Doc("The magnitude of a complex number.");

TROUPE_KERNEL("ComplexAbs").Device("CPU").Factory(PartFactory<ComplexAbsFn>);

struct ConjFn {
  template <class T>
  static T Do(const T& x) {
    return std::conj(x);
  }
};
const UnaryTable& ConjTable() {
  static const UnaryTable table = ULoops<ConjFn, std::complex<float>, std::complex<double>>(1);
  return table;
}

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
    .Factory(UnaryFactory<ConjTable>);

struct ComplexFn {
  template <class T>
  static std::complex<T> Do(T re, T im) {
    return {re, im};
  }
};
const BinaryTable& ComplexTable() {
  static const BinaryTable table = [] {
    BinaryTable t = {};
    t[DType::kFloat] = {LoopVV<ComplexFn, float, std::complex<float>>, LoopSV<ComplexFn, float, std::complex<float>>,
                        LoopVS<ComplexFn, float, std::complex<float>>, 1};
    t[DType::kDouble] = {LoopVV<ComplexFn, double, std::complex<double>>,
                         LoopSV<ComplexFn, double, std::complex<double>>,
                         LoopVS<ComplexFn, double, std::complex<double>>, 1};
    return t;
  }();
  return table;
}

absl::StatusOr<PreparedKernel> MakeComplexKernel(KernelInit& init) {
  if ((init.output_type(0) == DType::kComplex64) != (init.input_type(0) == DType::kFloat)) {
    return InvalidArgument("Tout must be made of parts of ", Name(init.input_type(0)), ", but is ",
                           Name(init.output_type(0)));
  }
  return BinaryFactory<ComplexTable>(init);
}

TROUPE_OP("Complex")
    .Input("real: T")
    .Input("imag: T")
    .Output("out: Tout")
    .Attr("T: {float, double} = DT_FLOAT")
    .Attr("Tout: {complex64, complex128} = DT_COMPLEX64")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, PartOf("Real", Grad(g)), PartOf("Imag", Grad(g))); })
    .Doc("The complex number of these parts, with broadcasting.");

TROUPE_KERNEL("Complex").Device("CPU").Factory(MakeComplexKernel);

}  // namespace
}  // namespace troupe::math
