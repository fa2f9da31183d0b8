#include <cmath>
#include <complex>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/adding.h"
#include "kernels/reduce/reduce_grad.h"

namespace troupe {
namespace {

struct EuclideanNormOp : math::Adding {
  template <class Acc, class T>
  static Acc Load(T x) {
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<Acc>(x) * static_cast<Acc>(x);
    } else {
      return std::norm(std::complex<double>(x));
    }
  }
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return static_cast<T>(std::sqrt(a));
  }
};

const math::ReduceTable& Table() {
  static const math::ReduceTable table = [] {
    math::ReduceTable t;
    t.one_is_itself = false;
    math::AddReducers<EuclideanNormOp, double, float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
                      uint32_t, uint64_t, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("EuclideanNorm")
    .Input("input: T")
    .Input("reduction_indices: Tidx")
    .Output("output: T")
    .Attr("keep_dims: bool = false")
    .Attr("T: numbertype")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Shape(shape_fn::Reduction)
    .Gradient([](GradientContext& g) -> absl::Status {
      const math::Value y = math::KeepDims(g, math::Out(g)), dy = math::KeepDims(g, math::Grad(g));
      return math::SetUnary(g, math::In(g, 0) / (y / dy));
    })
    .Doc(
        "The square root of the sum of squared magnitudes over the axes in reduction_indices; integers are truncated.");

TROUPE_KERNEL("EuclideanNorm")
    .Device("CPU")
    .Types("T", math::kNumbers)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<Table>);

}  // namespace troupe
