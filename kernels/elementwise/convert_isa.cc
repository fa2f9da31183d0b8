// Hot loops between float and the 16-bit floats, rounding to nearest even. All other arithmetic on
// 16-bit floats is made of these and float loops.
#include "kernels/elementwise/loops.h"

#if TROUPE_ISA_LEVEL >= 3
#include <immintrin.h>
#endif

namespace troupe::math {
namespace {

inline uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float Float(uint32_t b) { return __builtin_bit_cast(float, b); }

struct BFloat16ToFloat {
  static float Do(uint16_t b) { return Float(static_cast<uint32_t>(b) << 16); }
};
struct FloatToBFloat16 {
  static uint16_t Do(float f) {
    const uint32_t x = Bits(f);
    const uint32_t rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    const uint32_t nan = (x >> 16) | 0x0040u;
    return static_cast<uint16_t>((x & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};

// Without branches: subnormal halves come out of a float subtraction, which places the leading bit.
struct HalfToFloat {
  static float Do(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t m = static_cast<uint32_t>(h & 0x7fffu);
    const uint32_t normal = (m << 13) + 0x38000000u;
    const uint32_t special = (m << 13) | 0x7f800000u;
    const uint32_t subnormal = Bits(Float(0x38800000u + (m << 13)) - Float(0x38800000u));
    uint32_t r = m < 0x0400u ? subnormal : normal;
    r = m >= 0x7c00u ? special : r;
    return Float(sign | r);
  }
};
struct FloatToHalf {
  static uint16_t Do(float f) {
    const uint32_t b = Bits(f);
    const uint32_t sign = (b >> 16) & 0x8000u;
    const uint32_t x = b & 0x7fffffffu;
    // Adding 0.5 leaves a subnormal half, rounded to nearest even, in the low bits.
    const uint32_t subnormal = Bits(Float(x) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (x - 0x38000000u + 0x0fffu + ((x >> 13) & 1u)) >> 13;
    uint32_t r = x < 0x38800000u ? subnormal : normal;
    r = x >= 0x477ff000u ? 0x7c00u : r;
    r = x > 0x7f800000u ? (0x7e00u | ((x >> 13) & 0x3ffu)) : r;
    return static_cast<uint16_t>(sign | r);
  }
};

#if TROUPE_ISA_LEVEL >= 3
void HalfToFloatF16c(const void* a, void* out, int64_t n) {
  const uint16_t* x = static_cast<const uint16_t*>(a);
  float* z = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(z + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  }
  for (; i < n; ++i) z[i] = HalfToFloat::Do(x[i]);
}
void FloatToHalfF16c(const void* a, void* out, int64_t n) {
  const float* x = static_cast<const float*>(a);
  uint16_t* z = static_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(z + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
  for (; i < n; ++i) z[i] = FloatToHalf::Do(x[i]);
}
#endif

}  // namespace

void TROUPE_ISA::FillConversions(HotLoops* l) {
  l->bfloat16_to_float = LoopV<BFloat16ToFloat, uint16_t, float>;
  l->float_to_bfloat16 = LoopV<FloatToBFloat16, float, uint16_t>;
#if TROUPE_ISA_LEVEL >= 3
  l->half_to_float = HalfToFloatF16c;
  l->float_to_half = FloatToHalfF16c;
#else
  l->half_to_float = LoopV<HalfToFloat, uint16_t, float>;
  l->float_to_half = LoopV<FloatToHalf, float, uint16_t>;
#endif
}

}  // namespace troupe::math
