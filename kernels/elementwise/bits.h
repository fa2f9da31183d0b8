// What the ops on bits share (BitwiseAnd, BitwiseOr, BitwiseXor; LogicalAnd, LogicalOr), and the
// tests of floats (IsNan, IsInf, IsFinite).
#ifndef TROUPE_KERNELS_ELEMENTWISE_BITS_H_
#define TROUPE_KERNELS_ELEMENTWISE_BITS_H_

#include <string_view>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

// Definitions without doc.
inline OpBuilder BitwiseOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(TROUPE_T_INTEGERS)
      .Commutative()
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("it works on bits");
}
inline OpBuilder LogicalOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: bool")
      .Input("y: bool")
      .Output("z: bool")
      .Commutative()
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("it works on bool");
}
inline OpBuilder FloatTestOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Output("y: bool")
      .Attr(TROUPE_T_FLOATS)
      .Shape(shape_fn::Unchanged)
      .NotDifferentiable("its output is bool");
}

// Loops of F::Do(x, y) on unsigned integers, which serve the signed ones too.
template <class F>
const BinaryTable& BitwiseTable() {
  static const BinaryTable table = [] {
    BinaryTable t = Loops<F, uint32_t, uint64_t>(0.3f);
    AddSmallWrapping<F>(&t);
    t[DType::kInt32] = t[DType::kUint32];
    t[DType::kInt64] = t[DType::kUint64];
    return t;
  }();
  return table;
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
// Loops of F::Do(x) -> bool.
template <class F>
const UnaryTable& FloatTestTable() {
  static const UnaryTable table = [] {
    UnaryTable t = {};
    AddLoopsTo<F, bool, float, double>(&t, 0.5f);
    return t;
  }();
  return table;
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_BITS_H_
