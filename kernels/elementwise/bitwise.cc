// Ops on the bits of integers: BitwiseAnd, BitwiseOr, BitwiseXor and Invert;
// LeftShift and RightShift.
#include <string_view>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// A definition with two arguments, without doc.
OpBuilder IntegerOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr(TROUPE_T_INTEGERS)
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("it works on bits");
}

// Loops of F::Do on unsigned integers, which serve the signed ones too.
template <class F, class Table>
const Table& BitsTable() {
  static const Table table = [] {
    Table t;
    AddLoopsTo<F, void, uint32_t, uint64_t>(&t, 0.3f);
    AddSmallWrapping<F>(&t);
    t[DType::kInt32] = t[DType::kUint32];
    t[DType::kInt64] = t[DType::kUint64];
    return t;
  }();
  return table;
}

struct BitwiseAndFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x & y);
  }
};
const OpRegistrar bitwise_and =
    IntegerOp("BitwiseAnd").Commutative().Doc("The bitwise and of x and y, with broadcasting.");
TROUPE_CPU_KERNEL("BitwiseAnd").Factory(BinaryFactory<BitsTable<BitwiseAndFn, BinaryTable>>);

struct BitwiseOrFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x | y);
  }
};
const OpRegistrar bitwise_or =
    IntegerOp("BitwiseOr").Commutative().Doc("The bitwise or of x and y, with broadcasting.");
TROUPE_CPU_KERNEL("BitwiseOr").Factory(BinaryFactory<BitsTable<BitwiseOrFn, BinaryTable>>);

struct BitwiseXorFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x ^ y);
  }
};
const OpRegistrar bitwise_xor =
    IntegerOp("BitwiseXor").Commutative().Doc("The bitwise exclusive or of x and y, with broadcasting.");
TROUPE_CPU_KERNEL("BitwiseXor").Factory(BinaryFactory<BitsTable<BitwiseXorFn, BinaryTable>>);

struct InvertFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(~x);
  }
};
TROUPE_OP("Invert")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_INTEGERS)
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it works on bits")
    .Doc("All bits of x flipped.");
TROUPE_CPU_KERNEL("Invert").Factory(UnaryFactory<BitsTable<InvertFn, UnaryTable>>);

// How far a shift goes. Beyond the width of the type (or below zero) the count
// is taken as the nearest one that is possible.
template <class T>
T ShiftCount(T y) {
  constexpr T kMost = sizeof(T) * 8 - 1;
  return y < T(0) ? T(0) : y > kMost ? kMost : y;
}
template <class Fn>
const BinaryTable& ShiftTable() {
  static const BinaryTable table =
      Loops<Fn, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(0.5);
  return table;
}

struct LeftShiftFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << ShiftCount(y));
  }
};
const OpRegistrar left_shift = IntegerOp("LeftShift").Doc("x shifted left by y bits, with broadcasting.");
TROUPE_CPU_KERNEL("LeftShift").Factory(BinaryFactory<ShiftTable<LeftShiftFn>>);

struct RightShiftFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x >> ShiftCount(y));
  }
};
const OpRegistrar right_shift =
    IntegerOp("RightShift").Doc("x shifted right by y bits, with broadcasting; signed types keep their sign.");
TROUPE_CPU_KERNEL("RightShift").Factory(BinaryFactory<ShiftTable<RightShiftFn>>);

}  // namespace
}  // namespace troupe::math
