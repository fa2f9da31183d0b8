// Hyperbolic functions and their inverses; Tanh, which has a gradient op, is in
// unary_with_grad.cc.
#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/float_function.h"

namespace troupe::math {
namespace {

struct SinhFn {
  template <class T>
  static T Do(T x) {
    return std::sinh(x);
  }
};
const OpRegistrar sinh_op =
    FunctionOp("Sinh")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Cosh", Conj(In(g, 0)))); })
        .Doc("The hyperbolic sine of x.");
TROUPE_CPU_KERNEL("Sinh").Factory(UnaryFactory<SlowTable<SinhFn>>);

struct CoshFn {
  template <class T>
  static T Do(T x) {
    return std::cosh(x);
  }
};
const OpRegistrar cosh_op =
    FunctionOp("Cosh")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Sinh", Conj(In(g, 0)))); })
        .Doc("The hyperbolic cosine of x.");
TROUPE_CPU_KERNEL("Cosh").Factory(UnaryFactory<SlowTable<CoshFn>>);

struct AsinhFn {
  template <class T>
  static T Do(T x) {
    return std::asinh(x);
  }
};
const OpRegistrar asinh_op =
    FunctionOp("Asinh")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) / Apply("Cosh", Conj(Out(g)))); })
        .Doc("The inverse hyperbolic sine of x.");
TROUPE_CPU_KERNEL("Asinh").Factory(UnaryFactory<SlowTable<AsinhFn>>);

struct AcoshFn {
  template <class T>
  static T Do(T x) {
    return std::acosh(x);
  }
};
const OpRegistrar acosh_op =
    FunctionOp("Acosh")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) / Apply("Sinh", Conj(Out(g)))); })
        .Doc("The inverse hyperbolic cosine of x.");
TROUPE_CPU_KERNEL("Acosh").Factory(UnaryFactory<SlowTable<AcoshFn>>);

struct AtanhFn {
  template <class T>
  static T Do(T x) {
    return std::atanh(x);
  }
};
const OpRegistrar atanh_op =
    FunctionOp("Atanh")
        .Gradient([](GradientContext& g) {
          return SetUnary(g, Grad(g) * Apply("Reciprocal", 1.0 - Apply("Square", Conj(In(g, 0)))));
        })
        .Doc("The inverse hyperbolic tangent of x.");
TROUPE_CPU_KERNEL("Atanh").Factory(UnaryFactory<SlowTable<AtanhFn>>);

}  // namespace
}  // namespace troupe::math
