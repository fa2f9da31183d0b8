// Comparisons: Less, LessEqual, Greater and GreaterEqual (an order), Equal and NotEqual (an
// equality).
#include <complex>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// The definition of an order, without its doc.
OpBuilder OrderOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr("T: realnumbertype")
      .Shape(shape_fn::BroadcastBinary)
      .NotDifferentiable("its output is bool");
}
// Loops of F::Do(x, y) -> bool on all real types; with kHot the common types use those loops.
template <class F, HotBinary kHot = HotBinary::kCount>
const BinaryTable& OrderTable() {
  static const BinaryTable table = [] {
    BinaryTable t;
    if constexpr (kHot == HotBinary::kCount) {
      AddLoopsTo<F, bool, float, double, int32_t, int64_t>(&t, 0.3f);
    } else {
      t = HotTable(kHot);
    }
    AddLoopsTo<F, bool, int8_t, int16_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.3f);
    return t;
  }();
  return table;
}

struct LessFn {
  template <class T>
  static bool Do(T x, T y) {
    return x < y;
  }
};
const OpRegistrar less = OrderOp("Less").Doc("x < y, with broadcasting.");
TROUPE_CPU_KERNEL("Less").Factory(BinaryFactory<OrderTable<LessFn, HotBinary::kLess>>);

struct LessEqualFn {
  template <class T>
  static bool Do(T x, T y) {
    return x <= y;
  }
};
const OpRegistrar less_equal = OrderOp("LessEqual").Doc("x <= y, with broadcasting.");
TROUPE_CPU_KERNEL("LessEqual").Factory(BinaryFactory<OrderTable<LessEqualFn, HotBinary::kLessEqual>>);

struct GreaterFn {
  template <class T>
  static bool Do(T x, T y) {
    return y < x;
  }
};
const OpRegistrar greater = OrderOp("Greater").Doc("x > y, with broadcasting.");
TROUPE_CPU_KERNEL("Greater").Factory(BinaryFactory<OrderTable<GreaterFn>>);

struct GreaterEqualFn {
  template <class T>
  static bool Do(T x, T y) {
    return y <= x;
  }
};
const OpRegistrar greater_equal = OrderOp("GreaterEqual").Doc("x >= y, with broadcasting.");
TROUPE_CPU_KERNEL("GreaterEqual").Factory(BinaryFactory<OrderTable<GreaterEqualFn>>);

// Without incompatible_shape_error shapes may turn out not to broadcast, and the output to be a
// scalar.
absl::Status EqualityShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const bool strict, c.Attr<bool>("incompatible_shape_error"));
  if (strict) return shape_fn::BroadcastBinary(c);
  const absl::StatusOr<PartialTensorShape> shape = BroadcastPartialShapes(c.input(0), c.input(1));
  if (!shape.ok()) {
    c.set_output(0, PartialTensorShape(TensorShape()));
  } else if (c.input(0).IsFullyDefined() && c.input(1).IsFullyDefined()) {
    c.set_output(0, *shape);
  }
  return absl::OkStatus();
}
// The definition of an equality, without its doc.
OpBuilder EqualityOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr("T: type")
      .Attr("incompatible_shape_error: bool = true")
      .Commutative()
      .Shape(EqualityShape)
      .NotDifferentiable("its output is bool");
}
// The types of its kernels.
constexpr std::array kEqualityTypes = {
    DType::kBool,      DType::kString,     DType::kHalf,   DType::kBfloat16, DType::kFloat, DType::kDouble,
    DType::kComplex64, DType::kComplex128, DType::kInt8,   DType::kInt16,    DType::kInt32, DType::kInt64,
    DType::kUint8,     DType::kUint16,     DType::kUint32, DType::kUint64,   DType::kQint8, DType::kQint16,
    DType::kQint32,    DType::kQuint8,     DType::kQuint16};

// Loops of F::Do(x, y) -> bool on all types.
template <class F, HotBinary kHot>
const BinaryTable& EqualityTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(kHot, true);
    AddLoopsTo<F, bool, uint8_t, uint16_t>(&t, 0.3f);
    AddLoopsTo<F, bool, std::complex<float>, std::complex<double>>(&t, 1);
    AddLoopsTo<F, bool, std::string>(&t, 10);
    // Equality does not ask for signs.
    for (DType d : {DType::kInt8, DType::kBool, DType::kQint8, DType::kQuint8}) t[d] = t[DType::kUint8];
    for (DType d : {DType::kInt16, DType::kQint16, DType::kQuint16}) t[d] = t[DType::kUint16];
    t[DType::kQint32] = t[DType::kInt32];
    return t;
  }();
  return table;
}
// The kernel of a node that gives kIfNot for shapes that do not broadcast, where it may.
template <const BinaryTable& (*Table)(), BinaryShapes kIfNot>
absl::StatusOr<PreparedKernel> EqualityFactory(KernelInit& init) {
  const bool strict = init.Attr<bool>("incompatible_shape_error");
  return MakeBinary(init, Table(), nullptr, strict ? BinaryShapes::kBroadcast : kIfNot);
}

struct EqualFn {
  template <class T>
  static bool Do(const T& x, const T& y) {
    return x == y;
  }
};
const OpRegistrar equal = EqualityOp("Equal").Doc(
    "x == y, with broadcasting. Shapes that do not broadcast are an error, or with incompatible_shape_error = false "
    "give false.");
TROUPE_KERNEL("Equal")
    .Device("CPU")
    .Types("T", kEqualityTypes)
    .Factory(EqualityFactory<EqualityTable<EqualFn, HotBinary::kEqual>, BinaryShapes::kFalseIfNot>);

struct NotEqualFn {
  template <class T>
  static bool Do(const T& x, const T& y) {
    return x != y;
  }
};
const OpRegistrar not_equal = EqualityOp("NotEqual")
                                  .Doc(
                                      "x != y, with broadcasting. Shapes that do not broadcast are an error, or with "
                                      "incompatible_shape_error = false give true.");
TROUPE_KERNEL("NotEqual")
    .Device("CPU")
    .Types("T", kEqualityTypes)
    .Factory(EqualityFactory<EqualityTable<NotEqualFn, HotBinary::kNotEqual>, BinaryShapes::kTrueIfNot>);

}  // namespace
}  // namespace troupe::math
