#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct AbsFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(x < 0 ? -x : x);
  }
};
const std::vector<DType> kTypes = {DType::kHalf, DType::kBfloat16, DType::kFloat, DType::kDouble,
                                   DType::kInt8, DType::kInt16,    DType::kInt32, DType::kInt64};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kAbs);
    math::AddLoopsTo<AbsFn, void, int8_t, int16_t>(&t, 0.3f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Abs")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Sign", In(g, 0))); })
    .Doc("The magnitude of x; the lowest integer stays as it is.");

TROUPE_KERNEL("Abs").Device("CPU").Types("T", kTypes).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
