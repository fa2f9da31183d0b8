// All and Any: reductions of bools by `and` and by `or`.
#include <cstdint>
#include <string_view>

#include "kernels/reduce/reduction.h"
#include "troupe/op_def.h"

namespace troupe::math {
namespace {

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
OpBuilder BoolReductionOp(std::string_view name) {
  return OpBuilder(name)
      .Input("input: bool")
      .Input("reduction_indices: Tidx")
      .Output("output: bool")
      .Attr("keep_dims: bool = false")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(shape_fn::Reduction)
      .NotDifferentiable("it works on bool");
}

const OpRegistrar all =
    BoolReductionOp("All").Doc("True where all elements over the axes in reduction_indices are; of no elements, true.");

TROUPE_KERNEL("All").Device("CPU").HostMemory("reduction_indices").Factory(ReductionFactory<BoolReductionTable<true>>);

const OpRegistrar any =
    BoolReductionOp("Any").Doc("True where an element over the axes in reduction_indices is; of no elements, false.");

TROUPE_KERNEL("Any").Device("CPU").HostMemory("reduction_indices").Factory(ReductionFactory<BoolReductionTable<false>>);

}  // namespace
}  // namespace troupe::math
