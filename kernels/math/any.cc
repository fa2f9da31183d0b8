#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/reduce_grad.h"
#include "troupe/kernels/math/reduction.h"

namespace troupe {
namespace {

struct AnyOp {
  template <class Acc>
  static Acc Identity() {
    return Acc(0);
  }
  template <class Acc, class T>
  static Acc Load(T x) {
    return x;
  }
  template <class Acc>
  static Acc Combine(Acc a, Acc b) {
    return static_cast<Acc>(a | b);
  }
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return a != 0;
  }
};

const math::ReduceTable& Table() {
  static const math::ReduceTable table = [] {
    math::ReduceTable t;
    math::AddReducers<AnyOp, uint8_t, bool>(&t, 0.4f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Any")
    .Input("input: bool")
    .Input("reduction_indices: Tidx")
    .Output("output: bool")
    .Attr("keep_dims: bool = false")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(shape_fn::Reduction)
    .NotDifferentiable("it works on bool")
    .Doc("True where an element over the axes in reduction_indices is; of no elements, false.");

TROUPE_KERNEL("Any").Device("CPU").HostMemory("reduction_indices").Factory(math::ReductionFactory<Table>);

}  // namespace troupe
