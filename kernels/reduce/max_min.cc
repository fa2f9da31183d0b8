// Max and Min over axes.
#include <limits>
#include <string_view>

#include "kernels/elementwise/elementwise.h"
#include "kernels/reduce/reduce_grad.h"
#include "kernels/reduce/reduction.h"

namespace troupe {
namespace math {
namespace {

// The definition of an extreme over axes, without doc.
OpBuilder ExtremeOp(std::string_view name) {
  return ReductionOp(name,
                     "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, "
                     "qint8, quint8, qint32, qint16, quint16}")
      .Gradient(SharedByExtremes);
}
// Reducers that keep the element of which F::Before(it, other) holds against all others, or a NaN;
// an empty set gives F::Last.
template <class F>
struct Extreme {
  template <class Acc>
  static Acc Identity() {
    return F::template Last<Acc>();
  }
  template <class Acc, class T>
  static Acc Load(T x) {
    return x;
  }
  template <class Acc>
  static Acc Combine(Acc a, Acc b) {
    return F::Before(b, a) || b != b ? b : a;
  }
  template <class T, class Acc>
  static T Finish(Acc a, int64_t) {
    return a;
  }
};
template <class F, HotReduce kHot>
const ReduceTable& ExtremeTable() {
  static const ReduceTable table = [] {
    ReduceTable t;
    const auto add = [&t]<class... T>(float cost) { (AddReducers<Extreme<F>, T, T>(&t, cost), ...); };
    add.template operator()<float>(0.3f);
    add.template operator()<double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>(0.5f);
    t[DType::kFloat].loops = HotReduceLoops(kHot, 0);
    t[DType::kDouble].loops = HotReduceLoops(kHot, 1);
    return t;
  }();
  return table;
}

}  // namespace
}  // namespace math

namespace {

struct MaxFn {
  template <class T>
  static T Last() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class T>
  static bool Before(T a, T b) {
    return b < a;
  }
};
const OpRegistrar max = math::ExtremeOp("Max").Doc(
    "The largest element over the axes in reduction_indices; NaN when one of the elements is. Equal extremes share the "
    "gradient.");

struct MinFn {
  template <class T>
  static T Last() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class T>
  static bool Before(T a, T b) {
    return a < b;
  }
};
const OpRegistrar min = math::ExtremeOp("Min").Doc(
    "The smallest element over the axes in reduction_indices; NaN when one of the elements is. Equal extremes share "
    "the gradient.");

}  // namespace

TROUPE_KERNEL("Max")
    .Device("CPU")
    .Types("T", kReals)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<math::ExtremeTable<MaxFn, math::HotReduce::kMax>>);

TROUPE_KERNEL("Min")
    .Device("CPU")
    .Types("T", kReals)
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<math::ExtremeTable<MinFn, math::HotReduce::kMin>>);

}  // namespace troupe
