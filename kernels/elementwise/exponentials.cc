// Exponentials and logarithms: Exp, Expm1, Log and Log1p.
#include <cmath>
#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/float_function.h"

namespace troupe::math {
namespace {

// Hot loops for float; loops of F for double and complex numbers.
template <HotUnary kHot, class F>
const UnaryTable& HotFunctionTable() {
  static const UnaryTable table = [] {
    UnaryTable t = HotTable(kHot);
    AddLoopsTo<F, void, double, std::complex<float>, std::complex<double>>(&t, 8);
    return t;
  }();
  return table;
}

struct ExpFn {
  template <class T>
  static T Do(T x) {
    return std::exp(x);
  }
};
const OpRegistrar exp_op = FunctionOp("Exp")
                               .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Conj(Out(g))); })
                               .Doc("e to the power of x.");
TROUPE_CPU_KERNEL("Exp").Factory(UnaryFactory<HotFunctionTable<HotUnary::kExp, ExpFn>>);

struct Expm1Fn {
  template <class T>
  static T Do(T x) {
    return std::expm1(x);
  }
  // (e^x cos y - 1) + i e^x sin y, where the real part is written without
  // cancellation.
  template <class T>
  static std::complex<T> Do(std::complex<T> z) {
    const T x = z.real(), y = z.imag(), half = std::sin(y / 2);
    return {std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y)};
  }
};
const OpRegistrar expm1_op =
    FunctionOp("Expm1")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Exp", Conj(In(g, 0)))); })
        .Doc("exp(x) - 1, precise where x is small.");
TROUPE_CPU_KERNEL("Expm1").Factory(UnaryFactory<SlowTable<Expm1Fn>>);

struct LogFn {
  template <class T>
  static T Do(T x) {
    return std::log(x);
  }
};
const OpRegistrar log_op =
    FunctionOp("Log")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Reciprocal", Conj(In(g, 0)))); })
        .Doc("The natural logarithm of x; NaN for negative numbers.");
TROUPE_CPU_KERNEL("Log").Factory(UnaryFactory<HotFunctionTable<HotUnary::kLog, LogFn>>);

struct Log1pFn {
  template <class T>
  static T Do(T x) {
    return std::log1p(x);
  }
  // The rounding of 1 + z is undone by dividing by what was added.
  template <class T>
  static std::complex<T> Do(std::complex<T> z) {
    const std::complex<T> u = T(1) + z;
    if (u == T(1)) return z;
    const std::complex<T> log_u = std::log(u);
    return std::isinf(u.real()) || u == log_u ? log_u : z * (log_u / (u - T(1)));
  }
};
const OpRegistrar log1p_op =
    FunctionOp("Log1p")
        .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Reciprocal", 1.0 + Conj(In(g, 0)))); })
        .Doc("log(1 + x), precise where x is small.");
TROUPE_CPU_KERNEL("Log1p").Factory(UnaryFactory<SlowTable<Log1pFn>>);

}  // namespace
}  // namespace troupe::math
