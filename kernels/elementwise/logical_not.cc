#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: loop names

struct NotFn {
  static uint8_t Do(uint8_t x) { return x ^ 1; }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = {};
    t[DType::kBool] = {LoopV<NotFn, uint8_t, uint8_t>, 0.1f};
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("LogicalNot")
    .Input("x: bool")
    .Output("y: bool")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it works on bool")
    .Doc("not x.");

TROUPE_KERNEL("LogicalNot").Device("CPU").Factory(math::UnaryFactory<Table>);

}  // namespace troupe
