// What All and Any share: reductions of bools by `and` and by `or`.
#ifndef TROUPE_KERNELS_REDUCE_BOOL_REDUCTION_H_
#define TROUPE_KERNELS_REDUCE_BOOL_REDUCTION_H_

#include <cstdint>
#include <string_view>

#include "kernels/reduce/reduction.h"
#include "troupe/op_def.h"

namespace troupe::math {

template <bool kAll>
struct BoolReduction {
  template <class Acc>
  static Acc Identity() {
    return Acc(kAll);
  }
  template <class Acc, class T>
  static Acc Load(T x) {
    return x;
  }
  template <class Acc>
  static Acc Combine(Acc a, Acc b) {
    return static_cast<Acc>(kAll ? a & b : a | b);
  }
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return a != 0;
  }
};

template <bool kAll>
const ReduceTable& BoolReductionTable() {
  static const ReduceTable table = [] {
    ReduceTable t;
    AddReducers<BoolReduction<kAll>, uint8_t, bool>(&t, 0.4f);
    return t;
  }();
  return table;
}

// Without doc.
inline OpBuilder BoolReductionOp(std::string_view name) {
  return OpBuilder(name)
      .Input("input: bool")
      .Input("reduction_indices: Tidx")
      .Output("output: bool")
      .Attr("keep_dims: bool = false")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(shape_fn::Reduction)
      .NotDifferentiable("it works on bool");
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_REDUCE_BOOL_REDUCTION_H_
