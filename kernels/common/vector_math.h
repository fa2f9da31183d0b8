// exp, expm1 and log1p without branches, so that the compiler turns loops over them into vector
// code. For *_isa.cc files only.
//
// Errors: exp and expm1 within 2 units in the last place, log1p (for 0 <= x <= 1) within 3. NaN
// stays NaN, exp overflows to infinity and underflows to zero.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_COMMON_VECTOR_MATH_H_
#define TROUPE_KERNELS_COMMON_VECTOR_MATH_H_

#include <cstdint>

namespace troupe::TROUPE_ISA {
namespace {

inline float Rint(float x) { return __builtin_rintf(x); }
inline double Rint(double x) { return __builtin_rint(x); }
// 2^n for n in the exponent's range.
inline float PowerOf2(float, int32_t n) { return __builtin_bit_cast(float, (static_cast<uint32_t>(n) + 127u) << 23); }
inline double PowerOf2(double, int32_t n) {
  return __builtin_bit_cast(double, (static_cast<uint64_t>(static_cast<int64_t>(n)) + 1023u) << 52);
}

template <class T>
struct ExpConstants;
template <>
struct ExpConstants<float> {
  static constexpr float kMin = -110, kMax = 100, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  static constexpr int kDegree = 7, kLogTerms = 8;
};
template <>
struct ExpConstants<double> {
  static constexpr double kMin = -760, kMax = 720, kLn2High = 6.93147180369123816490e-01,
                          kLn2Low = 1.90821492927058770002e-10;
  static constexpr int kDegree = 13, kLogTerms = 16;
};

// x = n ln 2 + r: e^r - 1 by its Taylor series, which at |r| <= ln 2 / 2 needs few terms. 2^n is
// applied in two factors, so that the ends of the range are right.
template <class T>
struct ExpParts {
  T expm1_r;
  T half_power, other_power;
};
template <class T>
inline __attribute__((always_inline)) ExpParts<T> SplitExp(T x) {
  using C = ExpConstants<T>;
  x = x < C::kMin ? C::kMin : x;
  x = x > C::kMax ? C::kMax : x;
  const T n = Rint(x * T(1.44269504088896340736));
  const T r = (x - n * C::kLn2High) - n * C::kLn2Low;
  T p = 1;
#pragma GCC unroll 16
  for (int i = C::kDegree; i >= 2; --i) p = p * r * T(1.0 / i) + 1;
  // A NaN comes out by r; no integer stands for it.
  const int32_t whole = static_cast<int32_t>(n == n ? n : T(0)), half = whole >> 1;
  return {p * r, PowerOf2(T(), half), PowerOf2(T(), whole - half)};
}
template <class T>
inline __attribute__((always_inline)) T Exp(T x) {
  const ExpParts<T> e = SplitExp(x);
  return (1 + e.expm1_r) * e.half_power * e.other_power;
}
template <class T>
inline __attribute__((always_inline)) T Expm1(T x) {  // REQUIRES: x <= 0 or not far above
  const ExpParts<T> e = SplitExp(x);
  const T power = e.half_power * e.other_power;
  return e.expm1_r * power + (power - 1);
}
// log(1 + x) = 2 atanh(x / (2 + x)); for 0 <= x <= 1 the argument is at most 1/3.
template <class T>
inline __attribute__((always_inline)) T Log1p01(T x) {
  const T z = x / (2 + x), z2 = z * z;
  T p = 0;
#pragma GCC unroll 16
  for (int i = ExpConstants<T>::kLogTerms; i >= 0; --i) p = p * z2 + T(1.0 / (2 * i + 1));
  return 2 * z * p;
}

}  // namespace
}  // namespace troupe::TROUPE_ISA

#endif  // TROUPE_KERNELS_COMMON_VECTOR_MATH_H_
