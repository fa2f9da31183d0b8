// Erf and Erfc: the error function and what it lacks to 1.
#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/common/isa.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/special/erf_loop.h"

TROUPE_ISA_TABLE(ErfLoop, kErf, PickErf)

namespace troupe::math {
namespace {

struct ErfFn {
  template <class T>
  static T Do(T x) {
    return std::erf(x);
  }
};
const UnaryTable& ErfTable() {
  static const UnaryTable table = [] {
    UnaryTable t = ULoops<ErfFn, double>(15);
    t[DType::kFloat] = {PickErf().run, 1.0f};
    return t;
  }();
  return table;
}

TROUPE_OP("Erf")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      return SetUnary(g, Grad(g) * (1.1283791670955126 * Apply("Exp", -Apply("Square", In(g, 0)))));
    })
    .Doc("The error function of x: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.");

TROUPE_CPU_KERNEL("Erf").Factory(UnaryFactory<ErfTable>);

struct ErfcFn {
  template <class T>
  static T Do(T x) {
    return std::erfc(x);
  }
};
const UnaryTable& ErfcTable() {
  static const UnaryTable table = ULoops<ErfcFn, float, double>(15);
  return table;
}

TROUPE_OP("Erfc")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      return SetUnary(g, Grad(g) * (-1.1283791670955126 * Apply("Exp", -Apply("Square", In(g, 0)))));
    })
    .Doc("1 - erf(x), precise where x is large.");

TROUPE_CPU_KERNEL("Erfc").Factory(UnaryFactory<ErfcTable>);

}  // namespace
}  // namespace troupe::math
