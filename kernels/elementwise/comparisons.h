// What the comparisons share: Less, LessEqual, Greater and GreaterEqual (an order), Equal and
// NotEqual (an equality).
#ifndef TROUPE_KERNELS_ELEMENTWISE_COMPARISONS_H_
#define TROUPE_KERNELS_ELEMENTWISE_COMPARISONS_H_

#include <complex>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {

// The definition of an order, without its doc.
inline OpBuilder OrderOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}")
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

// The definition of an equality, without its doc, and the types of its kernels. Without
// incompatible_shape_error shapes may turn out not to broadcast, and the output to be a scalar.
OpBuilder EqualityOp(std::string_view name);
const std::vector<DType>& EqualityTypes();

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
// The kernel of a node that gives `if_not` for shapes that do not broadcast, where it may.
absl::StatusOr<PreparedKernel> MakeEquality(KernelInit& init, const BinaryTable& table, BinaryShapes if_not);
template <const BinaryTable& (*Table)(), BinaryShapes kIfNot>
absl::StatusOr<PreparedKernel> EqualityFactory(KernelInit& init) {
  return MakeEquality(init, Table(), kIfNot);
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_COMPARISONS_H_
