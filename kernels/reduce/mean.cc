#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/adding.h"
#include "kernels/reduce/reduce_grad.h"

namespace troupe {
namespace {

struct MeanOp : math::Adding {
  template <class T, class Acc>
  static T Finish(Acc a, int64_t count) {
    if constexpr (std::is_integral_v<Acc>) {
      return count == 0 ? T(0) : static_cast<T>(a / static_cast<Acc>(count));
    } else {
      // As TensorFlow has it, complex numbers give zero here.
      if constexpr (!std::is_floating_point_v<Acc>) {
        if (count == 0) return T(0);
      }
      return static_cast<T>(a / static_cast<double>(count));
    }
  }
};

const math::ReduceTable& Table() {
  static const math::ReduceTable table = [] {
    math::ReduceTable t;
    math::AddFloatSums<MeanOp>(&t);
    math::AddReducers<MeanOp, int64_t, int8_t, int16_t, int32_t, int64_t>(&t, 0.6f);
    math::AddReducers<MeanOp, uint64_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.6f);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Mean")
    .Input("input: T")
    .Input("reduction_indices: Tidx")
    .Output("output: T")
    .Attr("keep_dims: bool = false")
    .Attr("T: numbertype")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(shape_fn::Reduction)
    .Gradient([](GradientContext& g) -> absl::Status {
      const math::Value dx = math::SpreadOverInput(g, math::Grad(g));
      return math::SetUnary(g, dx / math::ReducedCount(g, dx));
    })
    .Doc(
        "The mean over the axes in reduction_indices. Of no elements it is NaN, for integers 0; a mean of integers is "
        "truncated towards zero.");

TROUPE_KERNEL("Mean")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<Table>);

}  // namespace troupe
