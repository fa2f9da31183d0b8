// Element-wise ops of one and two arguments: strided broadcasting of our own over vector functions.
//
// Eigen's broadcasting expressions compile for 13 s per op over all types. Here an op is a table of
// inner-loop function pointers per dtype (BinaryTable, UnaryTable), and one driver, compiled once,
// does the rest: shapes, output in an input's buffer, collapsing of dimensions, splitting over the
// compute threads. float16 and bfloat16 need no loops: they run the float loop on blocks that are
// widened and narrowed.
//
//   struct AtanFn { template <class T> static T Do(T y, T x) { return std::atan2(y, x); } };
//   const math::BinaryTable& Table() {
//     static const math::BinaryTable table = math::Loops<AtanFn, float, double>(10);
//     return table;
//   }
//   TROUPE_CPU_KERNEL("Atan2").Factory(math::BinaryFactory<Table>);
//
// Thread rule: tables and prepared states are immutable.
#ifndef TROUPE_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
#define TROUPE_KERNELS_ELEMENTWISE_ELEMENTWISE_H_

#include <vector>

#include "kernels/common/types.h"
#include "kernels/elementwise/hot_loops.h"
#include "kernels/elementwise/loops.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::math {

struct BinaryTable {
  BinaryLoops of[kNumDTypes] = {};
  BinaryLoops& operator[](DType t) { return of[static_cast<int>(t)]; }
  const BinaryLoops& operator[](DType t) const { return of[static_cast<int>(t)]; }
};
struct UnaryTable {
  UnaryLoops of[kNumDTypes] = {};
  UnaryLoops& operator[](DType t) { return of[static_cast<int>(t)]; }
  const UnaryLoops& operator[](DType t) const { return of[static_cast<int>(t)]; }
};

// The hot loops of an op as a table; with `wrapping`, the loops of int32 and int64 serve uint32 and
// uint64 as well.
BinaryTable HotTable(HotBinary op, bool wrapping = false);
UnaryTable HotTable(HotUnary op);

// Adds the loops of F on the types T. R is the output's type; void means T.
template <class F, class R, class... T>
void AddLoopsTo(BinaryTable* table, float cost) {
  ((table->of[static_cast<int>(kDTypeOf<T>)] = {LoopVV<F, T, std::conditional_t<std::is_void_v<R>, T, R>>,
                                                LoopSV<F, T, std::conditional_t<std::is_void_v<R>, T, R>>,
                                                LoopVS<F, T, std::conditional_t<std::is_void_v<R>, T, R>>, cost}),
   ...);
}
template <class F, class R, class... T>
void AddLoopsTo(UnaryTable* table, float cost) {
  ((table->of[static_cast<int>(kDTypeOf<T>)] = {LoopV<F, T, std::conditional_t<std::is_void_v<R>, T, R>>, cost}), ...);
}
// Adds loops of F on unsigned bytes and words that serve the signed types too: for functions that
// wrap around.
template <class F, class Table>
void AddSmallWrapping(Table* t) {
  AddLoopsTo<F, void, uint8_t, uint16_t>(t, 0.3f);
  (*t)[DType::kInt8] = (*t)[DType::kUint8];
  (*t)[DType::kInt16] = (*t)[DType::kUint16];
}
template <class F, class... T>
BinaryTable Loops(float cost) {
  BinaryTable t;
  AddLoopsTo<F, void, T...>(&t, cost);
  return t;
}
template <class F, class... T>
UnaryTable ULoops(float cost) {
  UnaryTable t;
  AddLoopsTo<F, void, T...>(&t, cost);
  return t;
}

// Looks at the second argument before the loops run. Of integer division: INVALID_ARGUMENT when an
// element is zero.
using BinaryCheck = absl::Status (*)(DType type, const void* b, int64_t n);
absl::Status CheckNoIntegerZero(DType type, const void* b, int64_t n);

enum class BinaryShapes : uint8_t {
  kBroadcast,
  kSame,        // both inputs have one shape: the *Grad ops
  kFalseIfNot,  // shapes that do not broadcast give a scalar false (Equal)
  kTrueIfNot,   // ... a scalar true (NotEqual)
};

// A kernel with the table's loops for the node's first input type. UNIMPLEMENTED when the table has
// none.
absl::StatusOr<PreparedKernel> MakeBinary(KernelInit& init, const BinaryTable& table, BinaryCheck check = nullptr,
                                          BinaryShapes shapes = BinaryShapes::kBroadcast);
absl::StatusOr<PreparedKernel> MakeUnary(KernelInit& init, const UnaryTable& table);

template <const BinaryTable& (*Table)(), BinaryShapes kShapes = BinaryShapes::kBroadcast, BinaryCheck kCheck = nullptr>
absl::StatusOr<PreparedKernel> BinaryFactory(KernelInit& init) {
  return MakeBinary(init, Table(), kCheck, kShapes);
}
template <const UnaryTable& (*Table)()>
absl::StatusOr<PreparedKernel> UnaryFactory(KernelInit& init) {
  return MakeUnary(init, Table());
}

// The conversions between a 16-bit float type and float; both null for any other type.
struct SmallFloatLoops {
  UnaryLoop widen = nullptr, narrow = nullptr;
};
SmallFloatLoops SmallFloat(DType type);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
