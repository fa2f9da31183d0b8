#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct SubFn {
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x - y);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kSub, true);
    math::AddSmallWrapping<SubFn>(&t);
    math::AddLoopsTo<SubFn, void, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Sub")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128, uint32, "
        "uint64}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, Grad(g), -Grad(g)); })
    .Doc("x - y with broadcasting; integers wrap around.");

TROUPE_KERNEL("Sub").Device("CPU").Types("T", math::kNumbers).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
