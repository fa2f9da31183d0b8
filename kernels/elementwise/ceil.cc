#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

struct CeilFn {
  template <class T>
  static T Do(T x) {
    return std::ceil(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<CeilFn, float, double>(2);
  return table;
}

}  // namespace

TROUPE_OP("Ceil")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient(NoGradientFlows)  // piecewise constant
    .Doc("The smallest integer not below x.");

TROUPE_KERNEL("Ceil").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
