// Reductions over any set of axes: Sum, Mean, Max, ...
//
// An op is a table of Reducers per dtype; one driver does the axes, collapses dimensions to
// alternating kept and reduced ones, and calls loops that either fold adjacent elements into one
// accumulator or add whole rows to a row of accumulators. Accumulators are wider than the elements
// (double for float sums, 64 bits for integers). 16-bit floats run the float reducer on widened
// blocks. The order of additions depends on shapes and the number of threads only.
//
// An empty set of elements gives the identity: 0 for Sum, 1 for Prod, the lowest value for Max, NaN
// for a Mean of floats.
//
// Thread rule: tables and prepared kernels are immutable; any number of threads may use them.
#ifndef TROUPE_KERNELS_REDUCE_REDUCTION_H_
#define TROUPE_KERNELS_REDUCE_REDUCTION_H_

#include <string_view>
#include <type_traits>

#include "kernels/elementwise/hot_loops.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::math {

struct Reducer {
  ReduceLoops loops = {};
  int acc_size = 0;  // at most 16
  void (*init)(void* acc, int64_t n) = nullptr;
  void (*merge)(void* acc, const void* other, int64_t n) = nullptr;
  // The n outputs, each reduced from `count` elements.
  void (*finish)(const void* acc, int64_t count, void* out, int64_t n) = nullptr;
  float cost = 0.5f;  // nanoseconds per element
};

struct ReduceTable {
  Reducer of[kNumDTypes] = {};
  // The reduction of one element is that element, so that such a reduction is a reshape.
  bool one_is_itself = true;
  Reducer& operator[](DType t) { return of[static_cast<int>(t)]; }
  const Reducer& operator[](DType t) const { return of[static_cast<int>(t)]; }
};

// A kernel with the table's reducer for the type of input 0. UNIMPLEMENTED when the table has none.
absl::StatusOr<PreparedKernel> MakeReduction(KernelInit& init, const ReduceTable& table);
template <const ReduceTable& (*Table)()>
absl::StatusOr<PreparedKernel> ReductionFactory(KernelInit& init) {
  return MakeReduction(init, Table());
}

// The hot loops of `op` on float (index 0) and double (1).
const ReduceLoops& HotReduceLoops(HotReduce op, int index);

// Which dimensions of a tensor of `rank` dimensions the int32 or int64 tensor `axes` names.
// INVALID_ARGUMENT when one is out of range or named twice.
absl::StatusOr<std::vector<bool>> ReducedDims(const Tensor& axes, int rank);

// How a reducer is made of an Op with
//   static Acc Identity<Acc>();  static Acc Load<Acc>(T);  static Acc Combine(Acc, Acc);  static T Finish<T>(Acc, int64_t count).
template <class Op, class T, class Acc>
struct ReducerOf {
  static void Row(const void* in, int64_t n, void* acc) {
    const T* x = static_cast<const T*>(in);
    Acc a = *static_cast<Acc*>(acc);
    for (int64_t i = 0; i < n; ++i) a = Op::Combine(a, Op::template Load<Acc>(x[i]));
    *static_cast<Acc*>(acc) = a;
  }
  static void Rows(const void* in, int64_t rows, int64_t stride, int64_t n, void* acc) {
    const T* x = static_cast<const T*>(in);
    Acc* a = static_cast<Acc*>(acc);
    for (int64_t r = 0; r < rows; ++r, x += stride) {
      for (int64_t j = 0; j < n; ++j) a[j] = Op::Combine(a[j], Op::template Load<Acc>(x[j]));
    }
  }
  static void Init(void* acc, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(acc)[i] = Op::template Identity<Acc>();
  }
  static void Merge(void* acc, const void* other, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<Acc*>(acc)[i] = Op::Combine(static_cast<Acc*>(acc)[i], static_cast<const Acc*>(other)[i]);
  }
  static void Finish(const void* acc, int64_t count, void* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = Op::template Finish<T>(static_cast<const Acc*>(acc)[i], count);
  }
};
template <class Op, class Acc, class... T>
void AddReducers(ReduceTable* table, float cost) {
  (((*table)[kDTypeOf<T>] = Reducer{{ReducerOf<Op, T, Acc>::Row, ReducerOf<Op, T, Acc>::Rows},
                                    sizeof(Acc),
                                    ReducerOf<Op, T, Acc>::Init,
                                    ReducerOf<Op, T, Acc>::Merge,
                                    ReducerOf<Op, T, Acc>::Finish,
                                    cost}),
   ...);
}

// The definition of a reduction, without gradient and doc.
inline OpBuilder ReductionOp(std::string_view name, std::string_view types = "T: numbertype") {
  return OpBuilder(name)
      .Input("input: T")
      .Input("reduction_indices: Tidx")
      .Output("output: T")
      .Attr("keep_dims: bool = false")
      .Attr(types)
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(shape_fn::Reduction);
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_REDUCE_REDUCTION_H_
