// Rounding: Floor, Ceil, Rint and Round. All are piecewise constant, so no
// gradient flows.
#include <cmath>
#include <string_view>
#include <type_traits>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

// Without doc. `types`: the allowed ones as an attr.
OpBuilder RoundingOp(std::string_view name, std::string_view types = TROUPE_T_FLOATS) {
  return OpBuilder(name).Input("x: T").Output("y: T").Attr(types).Shape(shape_fn::Unchanged).Gradient(NoGradientFlows);
}
template <class F>
const UnaryTable& RoundingTable() {
  static const UnaryTable table = ULoops<F, float, double>(2);
  return table;
}

struct FloorFn {
  template <class T>
  static T Do(T x) {
    return std::floor(x);
  }
};
const OpRegistrar floor_op = RoundingOp("Floor").Doc("The largest integer not above x.");
TROUPE_CPU_KERNEL("Floor").Factory(UnaryFactory<RoundingTable<FloorFn>>);

struct CeilFn {
  template <class T>
  static T Do(T x) {
    return std::ceil(x);
  }
};
const OpRegistrar ceil_op = RoundingOp("Ceil").Doc("The smallest integer not below x.");
TROUPE_CPU_KERNEL("Ceil").Factory(UnaryFactory<RoundingTable<CeilFn>>);

constexpr char kNearest[] = "The nearest integer; of two equally near the even one.";

struct RoundFn {
  template <class T>
  static T Do(T x) {
    if constexpr (std::is_integral_v<T>) {
      return x;
    } else {
      return std::nearbyint(x);
    }
  }
};
const OpRegistrar rint_op = RoundingOp("Rint").Doc(kNearest);
TROUPE_KERNEL("Rint").Device("CPU").Type<float, double>("T").Factory(UnaryFactory<RoundingTable<RoundFn>>);

const UnaryTable& RoundTable() {
  static const UnaryTable table = ULoops<RoundFn, float, double, int32_t, int64_t>(2);
  return table;
}
const OpRegistrar round_op = RoundingOp("Round", TROUPE_T_SIGNED).Doc(kNearest);
TROUPE_KERNEL("Round").Device("CPU").Type<Half, BFloat16, float, double, int32_t, int64_t>("T").Factory(
    UnaryFactory<RoundTable>);

}  // namespace
}  // namespace troupe::math
