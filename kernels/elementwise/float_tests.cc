// Tests of floats: IsFinite, IsInf and IsNan.
#include <cmath>
#include <string_view>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// Without doc.
OpBuilder FloatTestOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Output("y: bool")
      .Attr(TROUPE_T_FLOATS)
      .Shape(shape_fn::Unchanged)
      .NotDifferentiable("its output is bool");
}
// Loops of F::Do(x) -> bool.
template <class F>
const UnaryTable& FloatTestTable() {
  static const UnaryTable table = [] {
    UnaryTable t = {};
    AddLoopsTo<F, bool, float, double>(&t, 0.5f);
    return t;
  }();
  return table;
}

struct IsFiniteFn {
  template <class T>
  static bool Do(T x) {
    return std::isfinite(x);
  }
};
const OpRegistrar is_finite = FloatTestOp("IsFinite").Doc("Whether x is neither infinite nor NaN.");
TROUPE_CPU_KERNEL("IsFinite").Factory(UnaryFactory<FloatTestTable<IsFiniteFn>>);

struct IsInfFn {
  template <class T>
  static bool Do(T x) {
    return std::isinf(x);
  }
};
const OpRegistrar is_inf = FloatTestOp("IsInf").Doc("Whether x is infinite.");
TROUPE_CPU_KERNEL("IsInf").Factory(UnaryFactory<FloatTestTable<IsInfFn>>);

struct IsNanFn {
  template <class T>
  static bool Do(T x) {
    return std::isnan(x);
  }
};
const OpRegistrar is_nan = FloatTestOp("IsNan").Doc("Whether x is not a number.");
TROUPE_CPU_KERNEL("IsNan").Factory(UnaryFactory<FloatTestTable<IsNanFn>>);

}  // namespace
}  // namespace troupe::math
