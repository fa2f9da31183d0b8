#include "kernels/math/extremes.h"

namespace troupe {
namespace {

struct MinimumFn {
  template <class T>
  static T Do(T x, T y) {
    return y < x ? y : x;
  }
};
const OpRegistrar op = math::PickOp("Minimum")
                           .Gradient([](GradientContext& g) { return math::PickGradient(g, "LessEqual"); })
                           .Doc(
                               "The smaller of x and y, with broadcasting; NaN when either is. Where they are equal "
                               "the gradient goes to x.");

}  // namespace

TROUPE_KERNEL("Minimum")
    .Device("CPU")
    .Types("T", math::kReals)
    .Factory(math::BinaryFactory<math::PickTable<MinimumFn, math::HotBinary::kMinimum>>);

}  // namespace troupe
