// Vectors of floats, as wide as the instruction level has them, and loads and stores of parts of
// them, for *_isa.cc files. Everything has internal linkage, since such a file is compiled several
// times; arithmetic is the compiler's own on vector types.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_COMMON_FLOAT_VECTORS_H_
#define TROUPE_KERNELS_COMMON_FLOAT_VECTORS_H_

#if TROUPE_ISA_LEVEL >= 3
#include <immintrin.h>
#endif

namespace troupe::TROUPE_ISA {
namespace {

#if TROUPE_ISA_LEVEL >= 4
constexpr int kLanes = 16;
#elif TROUPE_ISA_LEVEL == 3
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef float Loose __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
constexpr int kHalfLanes = kLanes / 2;
typedef float Half __attribute__((vector_size(kHalfLanes * 4)));

#define TROUPE_INLINE [[maybe_unused]] inline __attribute__((always_inline))

// The first `n` of a vector; what is behind them is neither read nor written, and loads as zero.
TROUPE_INLINE Vec LoadPart(const float* p, int n) {
#if TROUPE_ISA_LEVEL >= 4
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
#elif TROUPE_ISA_LEVEL == 3
  return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
#else
  Vec v = {};
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
#endif
}
TROUPE_INLINE void StorePart(float* p, Vec v, int n) {
#if TROUPE_ISA_LEVEL >= 4
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
#elif TROUPE_ISA_LEVEL == 3
  _mm256_maskstore_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)), v);
#else
  for (int i = 0; i < n; ++i) p[i] = v[i];
#endif
}
#if TROUPE_ISA_LEVEL >= 4
TROUPE_INLINE Half LoadHalf(const float* p, int n) {
  return _mm256_maskz_loadu_ps(static_cast<__mmask8>((1u << n) - 1), p);
}
TROUPE_INLINE void StoreHalf(float* p, Half v, int n) {
  _mm256_mask_storeu_ps(p, static_cast<__mmask8>((1u << n) - 1), v);
}
#else
// Never called, since only vectors of 512 bits are halved; here so that one text compiles at every
// level.
TROUPE_INLINE Half LoadHalf(const float*, int) { return Half{}; }
TROUPE_INLINE void StoreHalf(float*, Half, int) {}
#endif

}  // namespace
}  // namespace troupe::TROUPE_ISA

#endif  // TROUPE_KERNELS_COMMON_FLOAT_VECTORS_H_
