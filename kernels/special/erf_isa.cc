// erf of floats as straight-line code, which the compiler turns into vector code.
#include "kernels/special/erf_loop.h"

#include "kernels/common/vector_math.h"

namespace troupe::TROUPE_ISA {
namespace {

inline uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }

inline float Erf(float x) {
  const float a = __builtin_fabsf(x), c = a > 4.0f ? 4.0f : a;
  // Below 1 an odd polynomial, elsewhere 1 - e^p: p is near the logarithm of what erf lacks to 1.
  const float z = c * c;
  float s = 7.8538811515e-5f;
  s = s * z + -8.0102002399e-4f;
  s = s * z + 5.1883285370e-3f;
  s = s * z + -2.6853812462e-2f;
  s = s * z + 1.1283585165e-1f;
  s = s * z + -3.7612625826e-1f;
  s = s * z + 1.2837916573e-1f;
  const float small = s * a + a;
  float p = -2.1686754338e-5f;
  p = p * c + 4.4133518896e-4f;
  p = p * c + -4.2045556723e-3f;
  p = p * c + 2.5208239106e-2f;
  p = p * c + -1.0841854783e-1f;
  p = p * c + -6.3321992216e-1f;
  p = p * c + -1.1295784086f;
  p = p * c + 1.8803669081e-4f;
  const float big = 1.0f - Exp(p);
  const float y = __builtin_bit_cast(float, Bits(a < 1.0f ? small : big) | (Bits(x) & 0x80000000u));
  return x != x ? x : y;
}

void Run(const void* in, void* out, int64_t n) {
  const float* x = static_cast<const float*>(in);
  float* y = static_cast<float*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = Erf(x[i]);
}

}  // namespace

extern const ErfLoop kErf;
const ErfLoop kErf = {&Run};

}  // namespace troupe::TROUPE_ISA
