#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

struct RoundFn {
  template <class T>
  static T Do(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return std::nearbyint(x);
    }
  }
};
const std::vector<DType> kTypes = {DType::kHalf,   DType::kBfloat16, DType::kFloat,
                                   DType::kDouble, DType::kInt32,    DType::kInt64};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = math::ULoops<RoundFn, float, double, int32_t, int64_t>(2);
  return table;
}

}  // namespace

TROUPE_OP("Round")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}")
    .Shape(shape_fn::Unchanged)
    .Gradient(NoGradientFlows)  // piecewise constant
    .Doc("The nearest integer; of two equally near the even one.");

TROUPE_KERNEL("Round").Device("CPU").Types("T", kTypes).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
