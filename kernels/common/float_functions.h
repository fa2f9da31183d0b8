// exp, tanh and the logistic function of vectors of floats, for *_isa.cc files only.
//
// Errors against the exact value in units of the last place (tests/elementwise/isa_test.cc holds
// them): ExpOf 1, SigmoidOf 3, TanhOf 4 below 1/2 and 7 above, where the units are the smallest.
// TanhOf is never beyond 1, but need not grow with x where it is near 1.
// Infinities, NaN, zeros, overflow and subnormal results are as the C library's; subnormals are
// zeros when the thread flushes them.
//
// A 512-bit division takes as long as a dozen multiplications: there an estimate of the reciprocal
// is refined instead.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_COMMON_FLOAT_FUNCTIONS_H_
#define TROUPE_KERNELS_COMMON_FLOAT_FUNCTIONS_H_

#include <cstdint>

#include "kernels/common/float_vectors.h"

namespace troupe::TROUPE_ISA {
namespace {

typedef int32_t IntVec __attribute__((vector_size(kLanes * 4)));

TROUPE_INLINE Vec AbsOf(Vec x) { return (Vec)((IntVec)x & 0x7fffffff); }
TROUPE_INLINE Vec MinusAbsOf(Vec x) { return (Vec)((IntVec)x | static_cast<int32_t>(0x80000000u)); }
TROUPE_INLINE Vec WithSignOf(Vec magnitude, Vec sign) {
  return (Vec)((IntVec)magnitude | ((IntVec)sign & static_cast<int32_t>(0x80000000u)));
}

// v, or `limit` where v is above it; a NaN stays one.
TROUPE_INLINE Vec AtMost(float limit, Vec v) {
#if TROUPE_ISA_LEVEL >= 4
  return _mm512_min_ps(_mm512_set1_ps(limit), v);  // the second where one is a NaN
#else
  return v > limit ? Vec{} + limit : v;
#endif
}

// a / b. REQUIRES: the reciprocal of b is a normal number.
TROUPE_INLINE Vec Quotient(Vec a, Vec b) {
#if TROUPE_ISA_LEVEL >= 4
  const Vec r = _mm512_rcp14_ps(b), q = a * r;
  return q + (a - q * b) * r;
#else
  return a / b;
#endif
}

// e^r for |r| <= ln(2) / 2, by the polynomial with the smallest relative error (3.1e-9, fitted by
// Lawson's iteration) among those of degree 6 that begin with 1 + r.
TROUPE_INLINE Vec ExpPolynomial(Vec r) {
  Vec p = r * 1.381453953e-3f + 8.368745161e-3f;
  p = p * r + 4.166839080e-2f;
  p = p * r + 1.666652040e-1f;
  p = p * r + 4.999999343e-1f;
#if TROUPE_ISA_LEVEL >= 3
  p = p * r + 1.0f;
  return p * r + 1.0f;
#else
  // Where a product is rounded before it is added, r is not to be among what was.
  return (p * (r * r) + r) + 1.0f;
#endif
}

// x = n ln 2 + r, n the nearest integer: r. ln 2 is in two parts, the first with few enough bits
// that n times it is exact.
TROUPE_INLINE Vec RestOf(Vec x, Vec n) { return (x - n * 0.693359375f) - n * -2.12194440e-4f; }
constexpr float kLog2E = 1.44269504088896341f;
// 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits then.
constexpr float kRound = 12582912.0f;
constexpr int32_t kRoundBits = 0x4b400000;

// With kBelow, for numbers of which none is above 88.
template <bool kBelow = false>
TROUPE_INLINE Vec ExpOf(Vec x) {
#if TROUPE_ISA_LEVEL >= 4
  // Of two numbers, these give the second where one is a NaN.
  Vec c = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
  if (!kBelow) c = AtMost(89.0f, c);
  const Vec n = _mm512_roundscale_ps(c * kLog2E, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm512_scalef_ps(ExpPolynomial(RestOf(c, n)), n);
#else
  Vec c = x < -110.0f ? Vec{} - 110.0f : x;
  c = c > 90.0f ? Vec{} + 90.0f : c;
  const Vec t = c * kLog2E + kRound;
  // 2^n in two factors, since n reaches from -159 to 130.
  const IntVec whole = (IntVec)t - kRoundBits, half = whole >> 1;
  const Vec e = ExpPolynomial(RestOf(c, t - kRound)) * (Vec)((half + 127) << 23) * (Vec)((whole - half + 127) << 23);
  return x != x ? x : e;
#endif
}

// x P(x^2) / Q(x^2) with the smallest relative error up to where the result is 1 (2.1e-8, fitted
// by Lawson's iteration). All coefficients are positive, so that no digits are lost in the sums. At
// 9.8 the quotient is 1 + 1.06e-6, beyond the reach of rounding.
TROUPE_INLINE Vec TanhOf(Vec x) {
  const Vec a = AtMost(9.8f, AbsOf(x)), z = a * a;
  Vec p = z * 1.33192905143e-8f + 2.05836769198e-5f;
  p = p * z + 3.49404821383e-3f;
  p = p * z + 1.33797300653e-1f;
  p = p * z + 1.0f;
  Vec q = z * 7.76211991033e-7f + 3.28311390217e-4f;
  q = q * z + 2.58711270735e-2f;
  q = q * z + 4.67130453337e-1f;
  q = q * z + 1.0f;
  return WithSignOf(AtMost(1.0f, Quotient(p * a, q)), x);
}

// 1 / (1 + e^-x). With e^-|x| nothing overflows, and the tail towards zero keeps its precision.
TROUPE_INLINE Vec SigmoidOf(Vec x) {
  const Vec e = ExpOf<true>(MinusAbsOf(x)), s = Quotient(Vec{} + 1.0f, e + 1.0f);
  return x < 0.0f ? e * s : s;
}

// The sum of all lanes: those of the upper half to those of the lower one, until one is left.
TROUPE_INLINE float SumOf(Vec v) {
#if TROUPE_ISA_LEVEL >= 3
#if TROUPE_ISA_LEVEL >= 4
  const __m256 eight = _mm512_castps512_ps256(v) + _mm512_extractf32x8_ps(v, 1);
#else
  const __m256 eight = v;
#endif
  __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
  four += _mm_movehl_ps(four, four);
  return four[0] + four[1];
#else
  return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

// y = F::Do(x), for n numbers; x may be y.
template <class F>
TROUPE_INLINE void ForEachFloat(const float* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) *reinterpret_cast<Loose*>(y + i) = F::Do(*reinterpret_cast<const Loose*>(x + i));
  if (i < n) StorePart(y + i, F::Do(LoadPart(x + i, static_cast<int>(n - i))), static_cast<int>(n - i));
}

}  // namespace
}  // namespace troupe::TROUPE_ISA

#endif  // TROUPE_KERNELS_COMMON_FLOAT_FUNCTIONS_H_
