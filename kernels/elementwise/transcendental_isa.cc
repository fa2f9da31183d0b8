// exp, log, tanh and sigmoid of floats as straight-line code without branches or tables, which the
// compiler turns into vector code.
//
// Largest errors against the exact value, measured over all floats in steps
// (tests/elementwise/isa_test.cc holds them):
//   exp 1 ulp, log 1 ulp, tanh 1.5 ulp, sigmoid 2.5 ulp. Infinities, NaN, zeros, overflow and subnormal results are as the C library's.
// Subnormals are zeros when the thread flushes them.
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

inline uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float Float(uint32_t b) { return __builtin_bit_cast(float, b); }

constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which then stands in the low bits

// e^r for |r| <= ln(2) / 2.
inline float ExpPolynomial(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return (p * r) * r + r + 1.0f;
}

inline float Exp(float x) {
  float c = x < -110.0f ? -110.0f : x;
  c = c > 90.0f ? 90.0f : c;
  const float t = c * 1.44269504088896341f + kRound;
  const float k = t - kRound;
  // ln 2 in two parts, the first with few enough bits that k times it is exact.
  const float r = (c - k * 0.693359375f) - k * -2.12194440e-4f;
  // 2^k in two factors, since k reaches from -159 to 130.
  const int32_t n = static_cast<int32_t>(Bits(t) - Bits(kRound));
  const int32_t half = n >> 1;
  const float s1 = Float(static_cast<uint32_t>(half + 127) << 23);
  const float s2 = Float(static_cast<uint32_t>(n - half + 127) << 23);
  const float e = ExpPolynomial(r) * s1 * s2;
  return x != x ? x : e;
}

inline float Log(float x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t b = Bits(tiny ? x * 8388608.0f : x);
  const uint32_t shifted = b - 0x3f3504f3u;
  const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  const float f = Float((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * f + -1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f + -1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f + -1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f + -2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float z = f * f;
  float y = p * z * f;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * z;
  float r = f + y + e * 0.693359375f;
  r = x == __builtin_inff() ? x : r;
  r = x == 0.0f ? -__builtin_inff() : r;
  return x < 0.0f ? __builtin_nanf("") : (x != x ? x : r);
}

inline float Tanh(float x) {
  const float a = __builtin_fabsf(x);
  // Near zero an odd polynomial, elsewhere 1 - 2 / (e^2a + 1).
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const float small = p * z * a + a;
  const float big = 1.0f - 2.0f / (Exp(2.0f * (a > 10.0f ? 10.0f : a)) + 1.0f);
  const float y = Float(Bits(a < 0.625f ? small : big) | (Bits(x) & 0x80000000u));
  return x != x ? x : y;
}

inline float Sigmoid(float x) {
  // With e^-|x| nothing overflows and the tail towards zero keeps its precision.
  const float e = Exp(-__builtin_fabsf(x));
  const float s = 1.0f / (1.0f + e);
  return x < 0.0f ? e * s : s;
}

struct ExpFn {
  static float Do(float x) { return Exp(x); }
};
struct LogFn {
  static float Do(float x) { return Log(x); }
};
struct TanhFn {
  static float Do(float x) { return Tanh(x); }
};
struct SigmoidFn {
  static float Do(float x) { return Sigmoid(x); }
};

}  // namespace

void TROUPE_ISA::FillTranscendental(HotLoops* l) {
  Fill<ExpFn, float>(l, HotUnary::kExp, HotType::kFloat, 0.6f);
  Fill<LogFn, float>(l, HotUnary::kLog, HotType::kFloat, 0.8f);
  Fill<TanhFn, float>(l, HotUnary::kTanh, HotType::kFloat, 1.0f);
  Fill<SigmoidFn, float>(l, HotUnary::kSigmoid, HotType::kFloat, 0.8f);
}

}  // namespace troupe::math
