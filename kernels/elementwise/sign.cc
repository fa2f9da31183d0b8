#include <complex>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct SignFn {
  template <class T>
  static T Do(T x) {
    return x != x ? x : static_cast<T>((T(0) < x) - (x < T(0)));
  }
  template <class T>
  static std::complex<T> Do(std::complex<T> x) {
    return x == T(0) ? x : x / std::abs(x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::ULoops<SignFn, float, double, int8_t, int16_t, int32_t, int64_t>(0.5);
    math::AddLoopsTo<SignFn, void, std::complex<float>, std::complex<double>>(&t, 5);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Sign")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) { return SetUnary(g, Apply("ZerosLike", In(g, 0))); })
    .Doc("-1, 0 or 1; NaN of NaN; of a complex number x / |x|, or 0.");

TROUPE_KERNEL("Sign").Device("CPU").Types("T", math::kSigned).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
