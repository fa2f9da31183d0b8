#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct SquareFn {
  static uint16_t Do(uint16_t x) { return static_cast<uint16_t>(uint32_t{x} * x); }
  template <class T>
  static T Do(T x) {
    return static_cast<T>(x * x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::HotTable(math::HotUnary::kSquare);
    t[DType::kUint32] = t[DType::kInt32];
    t[DType::kUint64] = t[DType::kInt64];
    math::AddSmallWrapping<SquareFn>(&t);
    math::AddLoopsTo<SquareFn, void, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Square")
    .Input("x: T")
    .Output("y: T")
    .Attr(
        "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
        "complex128}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Grad(g) * (2.0 * Conj(In(g, 0)))); })
    .Doc("x * x; integers wrap around.");

TROUPE_KERNEL("Square").Device("CPU").Types("T", math::kNumbers).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
