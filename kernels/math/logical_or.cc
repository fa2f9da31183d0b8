#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: loop names

struct LogicFn {
  // On bytes that are 0 or 1, without branches.
  static uint8_t Do(uint8_t x, uint8_t y) { return x | y; }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = {};
    t[DType::kBool] = {LoopVV<LogicFn, uint8_t, uint8_t>, LoopSV<LogicFn, uint8_t, uint8_t>, LoopVS<LogicFn, uint8_t, uint8_t>, 0.1f};
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("LogicalOr")
    .Input("x: bool")
    .Input("y: bool")
    .Output("z: bool")
    .Commutative()
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("it works on bool")
    .Doc("x or y, with broadcasting.");

TROUPE_KERNEL("LogicalOr").Device("CPU").Factory(math::BinaryFactory<Table>);

}  // namespace troupe
