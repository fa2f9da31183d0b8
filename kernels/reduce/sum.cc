#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/adding.h"
#include "kernels/reduce/reduce_grad.h"

namespace troupe {
namespace {

struct SumOp : math::Adding {
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return static_cast<T>(a);
  }
};

// Integers are added in 64 bits and keep their low bits: what wrapping around at every step gives.
const math::ReduceTable& Table() {
  static const math::ReduceTable table = [] {
    math::ReduceTable t;
    math::AddFloatSums<SumOp>(&t);
    math::AddReducers<SumOp, uint64_t, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t,
                                                                                                                 0.6f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Sum")
    .Input("input: T")
    .Input("reduction_indices: Tidx")
    .Output("output: T")
    .Attr("keep_dims: bool = false")
    .Attr("T: numbertype")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(shape_fn::Reduction)
    .Gradient([](GradientContext& g) { return math::SetUnary(g, math::SpreadOverInput(g, math::Grad(g))); })
    .Doc("The sum over the axes in reduction_indices; 0 where there is nothing to add.");

TROUPE_KERNEL("Sum")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<Table>);

}  // namespace troupe
