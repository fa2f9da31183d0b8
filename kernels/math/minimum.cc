#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/grad_math.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct PickFn {
  template <class T> static T Do(T x, T y) { return y < x ? y : x; }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kMinimum);
    math::AddLoopsTo<PickFn, void, int8_t, int16_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.3f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Minimum")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value mine = Apply("LessEqual", In(g, 0), In(g, 1)), zero = Number(Grad(g), 0);
      return SetBroadcast(g, Where(mine, Grad(g), zero), Where(mine, zero, Grad(g)));
    })
    .Doc("The smaller of x and y, with broadcasting; NaN when either is. Where they are equal the gradient goes to x.");

TROUPE_KERNEL("Minimum").Device("CPU").Types("T", math::kReals).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
