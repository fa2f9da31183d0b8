#include <cmath>
#include <vector>

#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

struct RintFn {
  template <class T>
  static T Do(T x) {
    return std::nearbyint(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<RintFn, float, double>(2);
  return table;
}

}  // namespace

TROUPE_OP("Rint")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::Unchanged)
    .Gradient(NoGradientFlows)  // piecewise constant
    .Doc("The nearest integer; of two equally near the even one.");

TROUPE_KERNEL("Rint")
    .Device("CPU")
    .Types("T", std::vector<DType>{DType::kFloat, DType::kDouble})
    .Factory(math::UnaryFactory<Table>);

}  // namespace troupe
