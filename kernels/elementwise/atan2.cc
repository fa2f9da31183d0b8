#include <cmath>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct Atan2Fn {
  template <class T>
  static T Do(T y, T x) {
    return std::atan2(y, x);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = math::Loops<Atan2Fn, float, double>(20);
  return table;
}

}  // namespace

TROUPE_OP("Atan2")
    .Input("y: T")
    .Input("x: T")
    .Output("z: T")
    .Attr(TROUPE_T_FLOATS)
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value y = In(g, 0), x = In(g, 1), scaled = Grad(g) / (Apply("Square", y) + Apply("Square", x));
      return SetBroadcast(g, x * scaled, -y * scaled);
    })
    .Doc("The angle of the point (x, y), with broadcasting.");

TROUPE_KERNEL("Atan2").Device("CPU").Types("T", math::kFloats).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
