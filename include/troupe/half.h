// IEEE binary16 and bfloat16 as storage types with conversion to and from float.
//
// Arithmetic is done in float and rounded to nearest even at every operation, as Eigen and
// TensorFlow do on CPUs without native half arithmetic. The bit layout equals Eigen::half and
// Eigen::bfloat16, so buffers can be mapped.
//
// Thread rule: plain values; as for a float.
#ifndef TROUPE_HALF_H_
#define TROUPE_HALF_H_

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>

#include "troupe/export.h"

namespace TROUPE_EXPORT troupe {

constexpr uint16_t FloatToHalfBits(float f) {
  uint32_t x = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (x >> 16) & 0x8000u;
  x &= 0x7fffffffu;
  if (x >= 0x7f800000u) {  // Inf or NaN; a NaN keeps its quiet bit.
    return static_cast<uint16_t>(sign | 0x7c00u | (x > 0x7f800000u ? 0x0200u | ((x >> 13) & 0x3ffu) : 0u));
  }
  if (x >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to Inf
  if (x < 0x38800000u) {                                               // subnormal or zero
    if (x < 0x33000000u) return static_cast<uint16_t>(sign);
    const uint32_t shift = 126u - (x >> 23);
    const uint32_t mantissa = (x & 0x7fffffu) | 0x800000u;
    uint32_t half = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t middle = 1u << (shift - 1);
    if (rest > middle || (rest == middle && (half & 1u))) ++half;
    return static_cast<uint16_t>(sign | half);
  }
  uint32_t half = ((x - 0x38000000u) >> 13);
  const uint32_t rest = x & 0x1fffu;
  if (rest > 0x1000u || (rest == 0x1000u && (half & 1u))) ++half;
  return static_cast<uint16_t>(sign | half);
}

constexpr float HalfBitsToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    uint32_t e = 113;
    while (!(mantissa & 0x400u)) {
      mantissa <<= 1;
      --e;
    }
    return std::bit_cast<float>(sign | (e << 23) | ((mantissa & 0x3ffu) << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

constexpr uint16_t FloatToBFloat16Bits(float f) {
  const uint32_t x = std::bit_cast<uint32_t>(f);
  if ((x & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((x >> 16) | 0x0040u);
  return static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}

constexpr float BFloat16BitsToFloat(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

#define TROUPE_SMALL_FLOAT(Type, FROM, TO)                                                   \
  struct Type {                                                                              \
    uint16_t bits = 0;                                                                       \
    constexpr Type() = default;                                                              \
    template <class N>                                                                       \
    requires std::is_arithmetic_v<N>                                                         \
    constexpr Type(N v) : bits(FROM(static_cast<float>(v))) {} /* NOLINT: numbers convert */ \
    static constexpr Type FromBits(uint16_t b) {                                             \
      Type r;                                                                                \
      r.bits = b;                                                                            \
      return r;                                                                              \
    }                                                                                        \
    constexpr operator float() const { return TO(bits); } /* NOLINT: it is a number */       \
    constexpr Type operator-() const { return FromBits(bits ^ 0x8000u); }                    \
    constexpr Type& operator+=(Type o) { return *this = Type(float(*this) + float(o)); }     \
    constexpr Type& operator-=(Type o) { return *this = Type(float(*this) - float(o)); }     \
    constexpr Type& operator*=(Type o) { return *this = Type(float(*this) * float(o)); }     \
    constexpr Type& operator/=(Type o) { return *this = Type(float(*this) / float(o)); }     \
    friend constexpr Type operator+(Type a, Type b) { return Type(float(a) + float(b)); }    \
    friend constexpr Type operator-(Type a, Type b) { return Type(float(a) - float(b)); }    \
    friend constexpr Type operator*(Type a, Type b) { return Type(float(a) * float(b)); }    \
    friend constexpr Type operator/(Type a, Type b) { return Type(float(a) / float(b)); }    \
    friend constexpr bool operator==(Type a, Type b) { return float(a) == float(b); }        \
    friend constexpr bool operator!=(Type a, Type b) { return float(a) != float(b); }        \
    friend constexpr bool operator<(Type a, Type b) { return float(a) < float(b); }          \
    friend constexpr bool operator<=(Type a, Type b) { return float(a) <= float(b); }        \
    friend constexpr bool operator>(Type a, Type b) { return float(a) > float(b); }          \
    friend constexpr bool operator>=(Type a, Type b) { return float(a) >= float(b); }        \
  };
TROUPE_SMALL_FLOAT(Half, FloatToHalfBits, HalfBitsToFloat)
TROUPE_SMALL_FLOAT(BFloat16, FloatToBFloat16Bits, BFloat16BitsToFloat)
#undef TROUPE_SMALL_FLOAT

}  // namespace troupe

template <>
struct std::numeric_limits<troupe::Half> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr troupe::Half lowest() { return troupe::Half::FromBits(0xfbff); }
  static constexpr troupe::Half max() { return troupe::Half::FromBits(0x7bff); }
  static constexpr troupe::Half min() { return troupe::Half::FromBits(0x0400); }
  static constexpr troupe::Half epsilon() { return troupe::Half::FromBits(0x1400); }
  static constexpr troupe::Half infinity() { return troupe::Half::FromBits(0x7c00); }
  static constexpr troupe::Half quiet_NaN() { return troupe::Half::FromBits(0x7e00); }
};
template <>
struct std::numeric_limits<troupe::BFloat16> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr troupe::BFloat16 lowest() { return troupe::BFloat16::FromBits(0xff7f); }
  static constexpr troupe::BFloat16 max() { return troupe::BFloat16::FromBits(0x7f7f); }
  static constexpr troupe::BFloat16 min() { return troupe::BFloat16::FromBits(0x0080); }
  static constexpr troupe::BFloat16 epsilon() { return troupe::BFloat16::FromBits(0x3c00); }
  static constexpr troupe::BFloat16 infinity() { return troupe::BFloat16::FromBits(0x7f80); }
  static constexpr troupe::BFloat16 quiet_NaN() { return troupe::BFloat16::FromBits(0x7fc0); }
};

#endif  // TROUPE_HALF_H_
