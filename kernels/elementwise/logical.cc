// Ops on bools: LogicalAnd, LogicalOr and LogicalNot.
#include <string_view>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// A definition with two arguments, without doc.
OpBuilder LogicalOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: bool")
      .Input("y: bool")
      .Output("z: bool")
      .Commutative()
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("it works on bool");
}
// Loops of F::Do(x, y) on bytes that are 0 or 1, without branches.
template <class F>
const BinaryTable& LogicalTable() {
  static const BinaryTable table = [] {
    BinaryTable t = {};
    t[DType::kBool] = {LoopVV<F, uint8_t, uint8_t>, LoopSV<F, uint8_t, uint8_t>, LoopVS<F, uint8_t, uint8_t>, 0.1f};
    return t;
  }();
  return table;
}

struct LogicalAndFn {
  static uint8_t Do(uint8_t x, uint8_t y) { return x & y; }
};
const OpRegistrar logical_and = LogicalOp("LogicalAnd").Doc("x and y, with broadcasting.");
TROUPE_KERNEL("LogicalAnd").Device("CPU").Factory(BinaryFactory<LogicalTable<LogicalAndFn>>);

struct LogicalOrFn {
  static uint8_t Do(uint8_t x, uint8_t y) { return x | y; }
};
const OpRegistrar logical_or = LogicalOp("LogicalOr").Doc("x or y, with broadcasting.");
TROUPE_KERNEL("LogicalOr").Device("CPU").Factory(BinaryFactory<LogicalTable<LogicalOrFn>>);

struct LogicalNotFn {
  static uint8_t Do(uint8_t x) { return x ^ 1; }
};
const UnaryTable& LogicalNotTable() {
  static const UnaryTable table = [] {
    UnaryTable t = {};
    t[DType::kBool] = {LoopV<LogicalNotFn, uint8_t, uint8_t>, 0.1f};
    return t;
  }();
  return table;
}
TROUPE_OP("LogicalNot")
    .Input("x: bool")
    .Output("y: bool")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it works on bool")
    .Doc("not x.");
TROUPE_KERNEL("LogicalNot").Device("CPU").Factory(UnaryFactory<LogicalNotTable>);

}  // namespace
}  // namespace troupe::math
