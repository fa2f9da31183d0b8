// Maximum and Minimum of two tensors.
#include <string_view>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace math {
namespace {

// The definition of an op that picks one of two, without gradient and doc.
OpBuilder PickOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}")
      .Shape(shape_fn::BroadcastBinary);
}
// The gradient goes to x where `mine` (a comparison) holds of x and y, and to y elsewhere.
absl::Status PickGradient(GradientContext& g, std::string_view mine) {
  const Value picked = Apply(mine, In(g, 0), In(g, 1)), zero = Number(Grad(g), 0);
  return SetBroadcast(g, Where(picked, Grad(g), zero), Where(picked, zero, Grad(g)));
}
// Loops of F::Do(x, y) on the types for which kHot has none.
template <class F, HotBinary kHot>
const BinaryTable& PickTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(kHot);
    AddLoopsTo<F, void, int8_t, int16_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.3f);
    return t;
  }();
  return table;
}

}  // namespace
}  // namespace math

namespace {

struct MaximumFn {
  template <class T>
  static T Do(T x, T y) {
    return x < y ? y : x;
  }
};
const OpRegistrar maximum =
    math::PickOp("Maximum")
        .Gradient([](GradientContext& g) { return math::PickGradient(g, "GreaterEqual"); })
        .Doc(
            "The larger of x and y, with broadcasting; NaN when either is. Where they are equal the "
            "gradient goes to x.");

struct MinimumFn {
  template <class T>
  static T Do(T x, T y) {
    return y < x ? y : x;
  }
};
const OpRegistrar minimum =
    math::PickOp("Minimum")
        .Gradient([](GradientContext& g) { return math::PickGradient(g, "LessEqual"); })
        .Doc(
            "The smaller of x and y, with broadcasting; NaN when either is. Where they are equal "
            "the gradient goes to x.");

}  // namespace

TROUPE_CPU_KERNEL("Maximum").Factory(math::BinaryFactory<math::PickTable<MaximumFn, math::HotBinary::kMaximum>>);

TROUPE_CPU_KERNEL("Minimum").Factory(math::BinaryFactory<math::PickTable<MinimumFn, math::HotBinary::kMinimum>>);

}  // namespace troupe
