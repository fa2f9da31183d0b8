#include <cmath>

#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

struct FloorFn {
  template <class T>
  static T Do(T x) {
    return std::floor(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<FloorFn, float, double>(2);
  return table;
}

}  // namespace

TROUPE_OP("Floor")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient(NoGradientFlows)  // piecewise constant
    .Doc("The largest integer not above x.");

TROUPE_KERNEL("Floor").Device("CPU").Types("T", math::kFloats).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
