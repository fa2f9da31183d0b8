#include <limits>

#include "troupe/kernels/math/elementwise.h"
#include "troupe/kernels/math/reduce_grad.h"
#include "troupe/kernels/math/reduction.h"

namespace troupe {
namespace {

struct MaxOp {
  template <class Acc> static Acc Identity() {
    using Limits = std::numeric_limits<Acc>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class Acc, class T> static Acc Load(T x) { return x; }
  template <class Acc> static Acc Combine(Acc a, Acc b) { return a < b || b != b ? b : a; }
  template <class T, class Acc> static T Finish(Acc a, int64_t) { return a; }
};

const math::ReduceTable& Table() {
  static const math::ReduceTable table = [] {
    math::ReduceTable t;
    math::AddReducers<MaxOp, float, float>(&t, 0.3f);
    math::AddReducers<MaxOp, double, double>(&t, 0.5f);
    t[DType::kFloat].loops = math::HotReduceLoops(math::HotReduce::kMax, 0);
    t[DType::kDouble].loops = math::HotReduceLoops(math::HotReduce::kMax, 1);
    math::AddReducers<MaxOp, int8_t, int8_t>(&t, 0.5f);
    math::AddReducers<MaxOp, int16_t, int16_t>(&t, 0.5f);
    math::AddReducers<MaxOp, int32_t, int32_t>(&t, 0.5f);
    math::AddReducers<MaxOp, int64_t, int64_t>(&t, 0.5f);
    math::AddReducers<MaxOp, uint8_t, uint8_t>(&t, 0.5f);
    math::AddReducers<MaxOp, uint16_t, uint16_t>(&t, 0.5f);
    math::AddReducers<MaxOp, uint32_t, uint32_t>(&t, 0.5f);
    math::AddReducers<MaxOp, uint64_t, uint64_t>(&t, 0.5f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Max")
    .Input("input: T")
    .Input("reduction_indices: Tidx")
    .Output("output: T")
    .Attr("keep_dims: bool = false")
    .Attr("T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, quint8, qint32, qint16, quint16}")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(shape_fn::Reduction)
    .Gradient([](GradientContext& g) { return math::SharedByExtremes(g); })
    .Doc("The largest element over the axes in reduction_indices; NaN when one of the elements is. Equal extremes share the gradient.");

TROUPE_KERNEL("Max").Device("CPU").Types("T", math::kReals).HostMemory("reduction_indices").Factory(math::ReductionFactory<Table>);

}  // namespace troupe
