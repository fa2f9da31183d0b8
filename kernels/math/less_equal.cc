#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

struct CompareFn {
  template <class T> static bool Do(T x, T y) { return x <= y; }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kLessEqual);
    math::AddLoopsTo<CompareFn, bool, int8_t, int16_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.3f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("LessEqual")
    .Input("x: T")
    .Input("y: T")
    .Output("z: bool")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("its output is bool")
    .Doc("x <= y, with broadcasting.");

TROUPE_KERNEL("LessEqual").Device("CPU").Types("T", math::kReals).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
