#include "kernels/math/extremes.h"

namespace troupe {
namespace {

struct MaximumFn {
  template <class T>
  static T Do(T x, T y) {
    return x < y ? y : x;
  }
};
const OpRegistrar op = math::PickOp("Maximum")
                           .Gradient([](GradientContext& g) { return math::PickGradient(g, "GreaterEqual"); })
                           .Doc(
                               "The larger of x and y, with broadcasting; NaN when either is. Where they are equal the "
                               "gradient goes to x.");

}  // namespace

TROUPE_KERNEL("Maximum")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<math::PickTable<MaximumFn, math::HotBinary::kMaximum>>);

}  // namespace troupe
