#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct PowFn {
  template <class T>
  static T Do(T x, T y) {
    if constexpr (std::is_integral_v<T>) {
      // By squaring; products wrap around.
      uint64_t base = static_cast<uint64_t>(x), result = 1;
      for (uint64_t e = static_cast<uint64_t>(y); e != 0; e >>= 1) {
        if (e & 1) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    } else {
      return std::pow(x, y);
    }
  }
};

// x to the power of one y: products and roots where y allows them, which are much faster than the
// library's function, and as exact to within a rounding. The special values are pow's: the root of
// -0 is 0, and that of minus infinity is infinity.
template <class T>
void PowVS(const void* a, const void* b, void* out, int64_t n) {
  const T* const x = static_cast<const T*>(a);
  T* const z = static_cast<T*>(out);
  const T y = *static_cast<const T*>(b);
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) z[i] = f(x[i]);
  };
  const auto root = [](T v) {
    return v == -std::numeric_limits<T>::infinity() ? std::numeric_limits<T>::infinity() : std::sqrt(v) + T(0);
  };
  if (y == T(2)) return each([](T v) { return v * v; });
  if (y == T(3)) return each([](T v) { return static_cast<T>(static_cast<double>(v) * v * v); });
  if (y == T(1)) return each([](T v) { return v; });
  if (y == T(-1)) return each([](T v) { return T(1) / v; });
  if (y == T(0.5)) return each(root);
  if (y == T(-0.5)) return each([&](T v) { return T(1) / root(v); });
  each([&](T v) { return std::pow(v, y); });
}

absl::Status CheckExponents(DType type, const void* y, int64_t n) {
  return VisitNumeric(type, absl::OkStatus(), [&]<class T>() -> absl::Status {
    if constexpr (std::is_integral_v<T>) {
      for (int64_t i = 0; i < n; ++i) {
        if (static_cast<const T*>(y)[i] < T(0))
          return InvalidArgument("Integers to negative integer powers are not allowed");
      }
    }
    return absl::OkStatus();
  });
}

const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::Loops<PowFn, int8_t, int16_t, int32_t, int64_t>(5);
    math::AddLoopsTo<PowFn, void, float, double>(&t, 15);
    t[DType::kFloat].vs = PowVS<float>;
    t[DType::kDouble].vs = PowVS<double>;
    math::AddLoopsTo<PowFn, void, std::complex<float>, std::complex<double>>(&t, 60);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Pow")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}")
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value dz = Grad(g), x = Conj(In(g, 0)), y = Conj(In(g, 1)), z = Conj(Out(g));
      // Where log(x) is not defined (or infinite) the exponent gets no gradient.
      const Value zero = Number(x, 0), one = Number(x, 1);
      const bool is_complex = IsComplex(g.input_type(0));
      const Value defined = is_complex ? Apply("NotEqual", x, zero) : Apply("Greater", x, zero);
      const Value log_x = Where(defined, Apply("Log", Where(defined, x, one)), zero);
      return SetBroadcast(g, dz * y * Apply("Pow", x, y - one), dz * z * log_x);
    })
    .Doc("x to the power of y, with broadcasting; a negative exponent of integers is an error.");

TROUPE_CPU_KERNEL("Pow").Factory(math::BinaryFactory<Table, math::BinaryShapes::kBroadcast, CheckExponents>);

}  // namespace troupe
