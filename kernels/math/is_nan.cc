#include <cmath>

#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

struct TestFn {
  template <class T> static bool Do(T x) { return std::isnan(x); }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = {};
    math::AddLoopsTo<TestFn, bool, float, double>(&t, 0.5f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("IsNan")
    .Input("x: T")
    .Output("y: bool")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("its output is bool")
    .Doc("Whether x is not a number.");

TROUPE_KERNEL("IsNan").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
