#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct DivFn {
  template <class T>
  static T Do(T x, T y) {
    return x / y;
  }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kDiv);
    math::AddLoopsTo<DivFn, void, std::complex<float>, std::complex<double>>(&t, 4);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("RealDiv")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(
        "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, uint64, int64, complex64, "
        "complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value x = Conj(In(g, 0)), y = Conj(In(g, 1)), dz = Grad(g);
      return SetBroadcast(g, dz / y, dz * ((-x / y) / y));
    })
    .Doc("x / y of real or complex numbers, with broadcasting.");

TROUPE_KERNEL("RealDiv").Device("CPU").Types("T", math::kFloatsAndComplex).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
