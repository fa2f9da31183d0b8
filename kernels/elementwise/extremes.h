// What the ops of extremes share: Maximum and Minimum of two tensors, Max and Min over axes.
#ifndef TROUPE_KERNELS_MATH_EXTREMES_H_
#define TROUPE_KERNELS_MATH_EXTREMES_H_

#include <limits>
#include <string_view>

#include "kernels/math/elementwise.h"
#include "kernels/math/grad_math.h"
#include "kernels/math/reduce_grad.h"
#include "kernels/math/reduction.h"

namespace troupe::math {

// The definition of an op that picks one of two, without gradient and doc.
inline OpBuilder PickOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: T")
      .Attr("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}")
      .Shape(shape_fn::BroadcastBinary);
}
// The gradient goes to x where `mine` (a comparison) holds of x and y, and to y elsewhere.
inline absl::Status PickGradient(GradientContext& g, std::string_view mine) {
  const Value picked = Apply(mine, In(g, 0), In(g, 1)), zero = Number(Grad(g), 0);
  return SetBroadcast(g, Where(picked, Grad(g), zero), Where(picked, zero, Grad(g)));
}
// Loops of F::Do(x, y) on the types for which kHot has none.
template <class F, HotBinary kHot>
const BinaryTable& PickTable() {
  static const BinaryTable table = [] {
    BinaryTable t = HotTable(kHot);
    AddLoopsTo<F, void, int8_t, int16_t, uint8_t, uint16_t, uint32_t, uint64_t>(&t, 0.3f);
    return t;
  }();
  return table;
}

// The definition of an extreme over axes, without doc.
inline OpBuilder ExtremeOp(std::string_view name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("reduction_indices: Tidx")
      .Output("output: T")
      .Attr("keep_dims: bool = false")
      .Attr(
          "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, quint8, "
          "qint32, qint16, quint16}")
      .Attr("Tidx: {int32, int64} = DT_INT32")
      .Shape(shape_fn::Reduction)
      .Gradient([](GradientContext& g) { return SharedByExtremes(g); });
}
// Reducers that keep the element of which F::Before(it, other) holds against all others, or a NaN; an empty set gives F::Last.
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

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_MATH_EXTREMES_H_
