// The gamma function and its kin: Lgamma, Digamma, Polygamma, and Zeta (of Hurwitz).
#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/special/function_table.h"

namespace troupe::math {
namespace {

struct LgammaFn {
  // The variants that do not write the global `signgam`.
  static float Do(float x) {
    int sign;
    return lgammaf_r(x, &sign);
  }
  static double Do(double x) {
    int sign;
    return lgamma_r(x, &sign);
  }
};
const UnaryTable& LgammaTable() {
  static const UnaryTable table = ULoops<LgammaFn, float, double>(30);
  return table;
}

TROUPE_OP("Lgamma")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Digamma", In(g, 0))); })
    .Doc("The logarithm of the magnitude of the gamma function of x.");

TROUPE_CPU_KERNEL("Lgamma").Factory(UnaryFactory<LgammaTable>);

struct DigammaFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(Digamma(x));
  }
};
const UnaryTable& DigammaTable() {
  static const UnaryTable table = ULoops<DigammaFn, float, double>(40);
  return table;
}

TROUPE_OP("Digamma")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      return SetUnary(g, Grad(g) * Apply("Polygamma", Number(In(g, 0), 1), In(g, 0)));
    })
    .Doc("The derivative of lgamma(x); NaN at 0, -1, -2, ...");

TROUPE_CPU_KERNEL("Digamma").Factory(UnaryFactory<DigammaTable>);

TROUPE_OP("Polygamma")
    .Input("a: T")
    .Input("x: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value a = In(g, 0), x = In(g, 1);
      g.Set(1, g.SumToShapeOf((Grad(g) * Apply("Polygamma", 1 + a, x)).out, 1));
      return g.status();
    })
    .Doc("The derivative of order a (a whole number) of digamma at x, with broadcasting. No gradient flows to a.");

TROUPE_CPU_KERNEL("Polygamma").Factory(BinaryFactory<TableOf<Polygamma, 300>>);

TROUPE_OP("Zeta")
    .Input("x: T")
    .Input("q: T")
    .Output("z: T")
    .Attr("T: {float, double}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value x = In(g, 0), q = In(g, 1);
      g.Set(1, g.SumToShapeOf((Grad(g) * -(x * Apply("Zeta", 1 + x, q))).out, 1));
      return g.status();
    })
    .Doc("The sum of (q + k)^-x over k = 0, 1, 2, ..., with broadcasting; NaN for x < 1. No gradient flows to x.");

TROUPE_CPU_KERNEL("Zeta").Factory(BinaryFactory<TableOf<Zeta, 300>>);

}  // namespace
}  // namespace troupe::math
