#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct MulFn {
  static uint16_t Do(uint16_t x, uint16_t y) { return static_cast<uint16_t>(uint32_t{x} * y); }
  template <class T>
  static T Do(T x, T y) {
    return static_cast<T>(x * y);
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kMul, true);
    math::AddSmallWrapping<MulFn>(&t);
    math::AddLoopsTo<MulFn, void, std::complex<float>, std::complex<double>>(&t, 1);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Mul")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, "
        "complex128}")
    .Commutative()
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) { return SetBroadcast(g, Grad(g) * Conj(In(g, 1)), Conj(In(g, 0)) * Grad(g)); })
    .Doc("x * y with broadcasting; integers wrap around.");

TROUPE_KERNEL("Mul").Device("CPU").Types("T", math::kNumbers).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
