// Direct convolutions: the sums of a few pixels (or taps) by a few vectors stay in registers.
#include "kernels/nn/conv_direct_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
// GCC 12 warns of the undefined operand inside its own AVX-512 intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace troupe::TROUPE_ISA {
namespace {

#define TROUPE_INLINE inline __attribute__((always_inline))

#if TROUPE_ISA_LEVEL >= 4
constexpr int kWidth = 16;
#elif TROUPE_ISA_LEVEL == 3
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
constexpr bool kHalves = kWidth == 16;
constexpr int kUnit = kHalves ? 8 : kWidth;
// Registers for sums, beside those for weights and a broadcast: 32 registers or 16.
constexpr int kSums = kHalves ? 24 : 12;
constexpr int kMaxUnits = kHalves ? 6 : 3;
static_assert(kMaxUnits <= ConvDirectTable::kMaxUnits);

template <int kLanes>
struct Lanes {
  typedef float Vec __attribute__((vector_size(kLanes * 4)));
  typedef float Load __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
};
using Vec = Lanes<kWidth>::Vec;
using Half = Lanes<kHalves ? 8 : 4>::Vec;
// The lanes of a and b, which are numbered through, that `index` names.
template <class V, class Index>
TROUPE_INLINE V Shuffle(V a, V b, Index index) {
#ifdef __clang__
  constexpr int kWidth = sizeof(V) / sizeof(a[0]);
  V result;
  for (int i = 0; i < kWidth; ++i) result[i] = index[i] < kWidth ? a[index[i]] : b[index[i] - kWidth];
  return result;
#else
  return __builtin_shuffle(a, b, index);
#endif
}

using Four = Lanes<4>::Vec;

template <class V>
TROUPE_INLINE V Read(const float* p) {
  return static_cast<V>(*reinterpret_cast<const typename Lanes<sizeof(V) / 4>::Load*>(p));
}
template <class V>
TROUPE_INLINE void Write(float* p, V v) {
  *reinterpret_cast<typename Lanes<sizeof(V) / 4>::Load*>(p) = v;
}

// An element in every lane: one float, or four in turn.
template <int kTogether, class V>
TROUPE_INLINE V Broadcast(const char* p) {
  if constexpr (kTogether == 1) return V{} + *reinterpret_cast<const float*>(p);
#if TROUPE_ISA_LEVEL >= 4
  if constexpr (sizeof(V) == 64)
    return static_cast<V>(_mm512_broadcast_f32x4(_mm_loadu_ps(reinterpret_cast<const float*>(p))));
#endif
#if TROUPE_ISA_LEVEL >= 3
  if constexpr (sizeof(V) == 32) return static_cast<V>(_mm256_broadcast_ps(reinterpret_cast<const __m128*>(p)));
#endif
  if constexpr (sizeof(V) == 16) return Read<V>(reinterpret_cast<const float*>(p));
}
// Asks for lines in `steps` equal steps.
struct Asking {
  const char* at;
  int64_t lines, per_step;
  Asking(const ConvAhead& a, int64_t steps)
      : at(a.at), lines(a.lines), per_step(steps > 0 ? (a.lines + steps - 1) / steps : 0) {}
  TROUPE_INLINE void Step() {
    const int64_t n = per_step < lines ? per_step : lines;
    for (int64_t i = 0; i < n; ++i, at += 64) __builtin_prefetch(at, 0, 2);
    lines -= n;
  }
};

// kP pixels. Their addresses are `in` plus 1, 2 or 4 times one of four steps: with a pointer for
// each they would be kept on the stack.
template <int kTogether, class V, int kV, int kP>
TROUPE_INLINE void Tile(const ConvRow& c, const char* image, float* out) {
  constexpr int kWide = sizeof(V) / 4;
  V sum[kP][kV] = {};
  const int64_t step[5] = {0, c.step, 3 * c.step, 5 * c.step, 7 * c.step};
  const float* w = c.weights;
  for (int64_t t = 0; t < c.taps; ++t) {
    const char* in = image + c.offset[t];
    for (int64_t k = c.run; k > 0; --k, in += kTogether * 4) {
      asm("" : "+r"(in));  // keeps the compiler from making pointers of the sums below
      V wk[kV];
#pragma GCC unroll 3
      for (int v = 0; v < kV; ++v) wk[v] = Read<V>(w + v * kWide);
      w += kV * kWide;
#pragma GCC unroll 8
      for (int p = 0; p < kP; ++p) {
        constexpr int kStep[8] = {0, 1, 1, 2, 1, 3, 2, 4}, kFactor[8] = {1, 1, 2, 1, 4, 1, 2, 1};
        const V x = Broadcast<kTogether, V>(in + kFactor[p] * step[kStep[p]]);
#pragma GCC unroll 3
        for (int v = 0; v < kV; ++v) sum[p][v] += wk[v] * x;
      }
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < kP; ++p) {
#pragma GCC unroll 3
    for (int v = 0; v < kV; ++v) Write<V>(out + p * c.out_lanes + v * kWide, sum[p][v]);
  }
}

// REQUIRES: columns >= kP. The last tile is moved left to end with the row.
template <int kTogether, class V, int kV, int kP>
void Row(const ConvRow& c) {
  const char* image = reinterpret_cast<const char*>(c.image);
  Asking ahead(c.ahead, (c.columns + kP - 1) / kP);
  for (int64_t q = 0; q < c.columns; q += kP) {
    if (q + kP > c.columns) q = c.columns - kP;
    ahead.Step();
    Tile<kTogether, V, kV, kP>(c, image + q * c.step, c.out + q * c.out_lanes);
  }
}

template <int kTogether, class V, int kV, int kK>
void Gather(const ConvGather& c) {
  constexpr int kWide = sizeof(V) / 4;
  V sum[kK][kV] = {};
  int64_t offset[kK];
  for (int j = 0; j < kK; ++j) offset[j] = c.offset[j];
  const float* d = c.d;
  Asking ahead(c.ahead, c.rows);
  for (int64_t r = 0; r < c.rows; ++r) {
    ahead.Step();
    const char* in = reinterpret_cast<const char*>(c.image) + r * c.row_step;
    for (int64_t q = c.columns; q > 0; --q, in += c.step, d += c.d_lanes) {
      asm("" : "+r"(in));
      V dk[kV];
#pragma GCC unroll 3
      for (int v = 0; v < kV; ++v) dk[v] = Read<V>(d + v * kWide);
#pragma GCC unroll 8
      for (int j = 0; j < kK; ++j) {
        const V x = Broadcast<kTogether, V>(in + offset[j]);
#pragma GCC unroll 3
        for (int v = 0; v < kV; ++v) sum[j][v] += dk[v] * x;
      }
    }
  }
  constexpr int kLanes = kV * kWide;
#pragma GCC unroll 8
  for (int j = 0; j < kK; ++j) {
    float* to = c.sums + j * kLanes;
#pragma GCC unroll 3
    for (int v = 0; v < kV; ++v) Write<V>(to + v * kWide, Read<V>(to + v * kWide) + sum[j][v]);
  }
}

// NaN passes: the comparisons are false.
template <class V>
TROUPE_INLINE V Clamp(V x, V low, V high) {
#if TROUPE_ISA_LEVEL >= 4
  if constexpr (sizeof(V) == 64) {
    return static_cast<V>(
        _mm512_min_ps(static_cast<__m512>(high), _mm512_max_ps(static_cast<__m512>(low), static_cast<__m512>(x))));
  }
#endif
#if defined(__x86_64__)
  if constexpr (sizeof(V) == 16) {
    return static_cast<V>(
        _mm_min_ps(static_cast<__m128>(high), _mm_max_ps(static_cast<__m128>(low), static_cast<__m128>(x))));
  }
#endif
  x = x < low ? low : x;
  return x > high ? high : x;
}

// The first kN floats of four.
template <int kN>
TROUPE_INLINE Four ReadSome(const float* p) {
  if constexpr (kN == 4) return Read<Four>(p);
  if constexpr (kN == 2) {  // in one load: a copy through memory would be read back before it is whole
    typedef double Two __attribute__((vector_size(16)));
    typedef double Pair __attribute__((aligned(4), may_alias));
    return reinterpret_cast<Four>(Two{*reinterpret_cast<const Pair*>(p), 0});
  }
  Four v = {};
#pragma GCC unroll 3
  for (int i = 0; i < kN; ++i) v[i] = p[i];
  return v;
}
template <int kN>
TROUPE_INLINE void WriteSome(float* p, Four v) {
  __builtin_memcpy(p, &v, kN * 4);
}

// One or zero in each lane; NaN times it stays NaN, as in ReluGrad.
TROUPE_INLINE Four Positive(Four v) {
  const Four one = Four{} + 1.0f;
  return v > Four{} ? one : Four{};
}

typedef int Index4 __attribute__((vector_size(16)));

// kN channels from 4 b on, of one image.
template <bool kRelu, int kN>
TROUPE_INLINE void FinishAlone(const ConvFinish& f, int64_t b) {
  const Four low = Four{} + f.low, high = Four{} + f.high, bias = Read<Four>(f.bias + 4 * b);
  const float* in = f.row + 4 * b;
  const int64_t lanes = f.lanes, step = f.out_column;
  float* const out = f.out[0];
  const float* const relu = f.relu[0];
  int64_t at = 4 * b;
  for (int64_t q = f.columns; q > 0; --q, in += lanes, at += step) {
    Four v = Clamp(Read<Four>(in) + bias, low, high);
    if constexpr (kRelu) v *= Positive(ReadSome<kN>(relu + at));
    WriteSome<kN>(out + at, v);
  }
}

// The same of kImages out of four, which come as [channel][image]; channels lie up to 2 or up to 4
// in a row.
template <bool kRelu, int kN, int kImages>
TROUPE_INLINE void FinishFour(const ConvFinish& f, int64_t b) {
  const Four low = Four{} + f.low, high = Four{} + f.high;
  const float* in = f.row + 16 * b;
  // The stores below may change anything for all the compiler knows, so what f says is copied.
  const int64_t lanes = f.lanes, step = f.out_column;
  float* const out[4] = {f.out[0], f.out[1], f.out[2], f.out[3]};
  const float* const relu[4] = {f.relu[0], f.relu[1], f.relu[2], f.relu[3]};
  int64_t at = 4 * b;
  if constexpr (kN <= 2) {
    const Four some = Read<Four>(f.bias + 4 * b), bias = Shuffle(some, some, Index4{0, 1, 0, 1});
    for (int64_t q = f.columns; q > 0; --q, in += lanes, at += step) {
      const Four c0 = Read<Four>(in), c1 = Read<Four>(in + 4);
      Four pair[2] = {Shuffle(c0, c1, Index4{0, 4, 1, 5}), Shuffle(c0, c1, Index4{2, 6, 3, 7})};
#pragma GCC unroll 2
      for (int i = 0; i < (kImages + 1) / 2; ++i) {
        Four v = Clamp(pair[i] + bias, low, high);
        const bool both = 2 * i + 1 < kImages;
        if constexpr (kRelu) {
          const Four r0 = ReadSome<kN>(relu[2 * i] + at), r1 = both ? ReadSome<kN>(relu[2 * i + both] + at) : r0;
          v *= Positive(Shuffle(r0, r1, Index4{0, 1, 4, 5}));
        }
        WriteSome<kN>(out[2 * i] + at, v);
        if (both) WriteSome<kN>(out[2 * i + both] + at, Shuffle(v, v, Index4{2, 3, 2, 3}));
      }
    }
    return;
  }
  const Four bias = Read<Four>(f.bias + 4 * b);
  for (int64_t q = f.columns; q > 0; --q, in += lanes, at += step) {
#if TROUPE_ISA_LEVEL >= 4
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512 all = Clamp(_mm512_permutexvar_ps(turn, _mm512_loadu_ps(in)) + _mm512_broadcast_f32x4(bias),
                             _mm512_broadcast_f32x4(low), _mm512_broadcast_f32x4(high));
    Four image[4] = {_mm512_castps512_ps128(all), _mm512_extractf32x4_ps(all, 1), _mm512_extractf32x4_ps(all, 2),
                     _mm512_extractf32x4_ps(all, 3)};
#else
    const Four c0 = Read<Four>(in), c1 = Read<Four>(in + 4), c2 = Read<Four>(in + 8), c3 = Read<Four>(in + 12);
    const Four a0 = Shuffle(c0, c1, Index4{0, 4, 1, 5}), a1 = Shuffle(c2, c3, Index4{0, 4, 1, 5});
    const Four a2 = Shuffle(c0, c1, Index4{2, 6, 3, 7}), a3 = Shuffle(c2, c3, Index4{2, 6, 3, 7});
    Four image[4] = {Shuffle(a0, a1, Index4{0, 1, 4, 5}), Shuffle(a0, a1, Index4{2, 3, 6, 7}),
                     Shuffle(a2, a3, Index4{0, 1, 4, 5}), Shuffle(a2, a3, Index4{2, 3, 6, 7})};
    for (Four& v : image) v = Clamp(v + bias, low, high);
#endif
#pragma GCC unroll 4
    for (int i = 0; i < kImages; ++i) {
      if constexpr (kRelu) image[i] *= Positive(ReadSome<kN>(relu[i] + at));
      WriteSome<kN>(out[i] + at, image[i]);
    }
  }
}

template <int kTogether, bool kRelu, int kN>
void FinishBlock(const ConvFinish& f, int64_t b) {
  if constexpr (kTogether == 1) return FinishAlone<kRelu, kN>(f, b);
  switch (f.images) {
    case 4:
      return FinishFour<kRelu, kN, 4>(f, b);
    case 3:
      return FinishFour<kRelu, kN, 3>(f, b);
    case 2:
      return FinishFour<kRelu, kN, 2>(f, b);
    default:
      return FinishFour<kRelu, kN, 1>(f, b);
  }
}

template <int kTogether, bool kRelu>
void FinishRow(const ConvFinish& f) {
  int64_t b = 0;
  for (; 4 * b + 4 <= f.channels; ++b) FinishBlock<kTogether, kRelu, 4>(f, b);
  switch (f.channels - 4 * b) {
    case 3:
      return FinishBlock<kTogether, kRelu, 3>(f, b);
    case 2:
      return FinishBlock<kTogether, kRelu, 2>(f, b);
    case 1:
      return FinishBlock<kTogether, kRelu, 1>(f, b);
    default:
      return;
  }
}

template <int kTogether>
void Finish(const ConvFinish& f) {
  if (f.relu[0] != nullptr) {
    FinishRow<kTogether, true>(f);
  } else {
    FinishRow<kTogether, false>(f);
  }
}

// a0 b0 a1 b1 ...: the lower and the upper half of it.
template <bool kUpper>
TROUPE_INLINE Vec Zip(Vec a, Vec b) {
  typedef int Index __attribute__((vector_size(kWidth * 4)));
  Index index;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; ++i) index[i] = (kUpper ? kWidth / 2 : 0) + i / 2 + (i % 2) * kWidth;
  return Shuffle(a, b, index);
}

void Interleave(const float* const from[4], int64_t n, float* to) {
  const float *const f0 = from[0], *const f1 = from[1], *const f2 = from[2], *const f3 = from[3];
  if (n < kWidth) {
    for (int64_t e = 0; e < n; ++e) {
      to[4 * e] = f0[e], to[4 * e + 1] = f1[e], to[4 * e + 2] = f2[e], to[4 * e + 3] = f3[e];
    }
    return;
  }
  for (int64_t e = 0; e < n; e += kWidth) {
    if (e + kWidth > n) e = n - kWidth;  // the last vector ends with the row
    const Vec a = Read<Vec>(f0 + e), b = Read<Vec>(f1 + e), c = Read<Vec>(f2 + e), d = Read<Vec>(f3 + e);
    const Vec ac0 = Zip<false>(a, c), ac1 = Zip<true>(a, c), bd0 = Zip<false>(b, d), bd1 = Zip<true>(b, d);
    Write<Vec>(to + 4 * e, Zip<false>(ac0, bd0));
    Write<Vec>(to + 4 * e + kWidth, Zip<true>(ac0, bd0));
    Write<Vec>(to + 4 * e + 2 * kWidth, Zip<false>(ac1, bd1));
    Write<Vec>(to + 4 * e + 3 * kWidth, Zip<true>(ac1, bd1));
  }
}

void AddPixels(const float* d, int64_t pixels, int64_t lanes, float* sums) {
  int64_t l = 0;
  for (; l + kWidth <= lanes; l += kWidth) {
    Vec s[4] = {};
    const float* p = d + l;
    int64_t i = 0;
    for (; i + 4 <= pixels; i += 4) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j, p += lanes) s[j] += Read<Vec>(p);
    }
    for (; i < pixels; ++i, p += lanes) s[0] += Read<Vec>(p);
    Write<Vec>(sums + l, Read<Vec>(sums + l) + ((s[0] + s[1]) + (s[2] + s[3])));
  }
  for (; l + 4 <= lanes; l += 4) {
    Four s = {};
    for (int64_t i = 0; i < pixels; ++i) s += Read<Four>(d + i * lanes + l);
    Write<Four>(sums + l, Read<Four>(sums + l) + s);
  }
  for (; l < lanes; ++l) {
    float s = 0;
    for (int64_t i = 0; i < pixels; ++i) s += d[i * lanes + l];
    sums[l] += s;
  }
}

template <int kTogether, int kUnits, int kN, class V, int kV>
constexpr void Set(ConvDirectTable& t) {
  if constexpr (kUnits <= kMaxUnits && kV * kN <= kSums) {
    t.row[kTogether == 4][kUnits - 1][kN - 1] = &Row<kTogether, V, kV, kN>;
    t.gather[kTogether == 4][kUnits - 1][kN - 1] = &Gather<kTogether, V, kV, kN>;
  }
}
template <int kTogether, int kUnits, int kN>
constexpr void SetTile(ConvDirectTable& t) {
  if constexpr (!kHalves) {
    Set<kTogether, kUnits, kN, Vec, kUnits>(t);
  } else if constexpr (kUnits % 2 == 0) {
    Set<kTogether, kUnits, kN, Vec, kUnits / 2>(t);
  } else if constexpr (kUnits <= 3) {
    Set<kTogether, kUnits, kN, Half, kUnits>(t);
  }
}
template <int kTogether, int kUnits>
constexpr void SetUnits(ConvDirectTable& t) {
  SetTile<kTogether, kUnits, 1>(t);
  SetTile<kTogether, kUnits, 2>(t);
  SetTile<kTogether, kUnits, 3>(t);
  SetTile<kTogether, kUnits, 4>(t);
  SetTile<kTogether, kUnits, 5>(t);
  SetTile<kTogether, kUnits, 6>(t);
  SetTile<kTogether, kUnits, 7>(t);
  SetTile<kTogether, kUnits, 8>(t);
}
template <int kTogether>
constexpr void SetAll(ConvDirectTable& t) {
  SetUnits<kTogether, 1>(t);
  SetUnits<kTogether, 2>(t);
  SetUnits<kTogether, 3>(t);
  SetUnits<kTogether, 4>(t);
  SetUnits<kTogether, 5>(t);
  SetUnits<kTogether, 6>(t);
}
constexpr ConvDirectTable MakeTable() {
  ConvDirectTable t = {};
  t.unit = kUnit;
  SetAll<1>(t);
  SetAll<4>(t);
  t.finish[0] = &Finish<1>, t.finish[1] = &Finish<4>;
  t.interleave = &Interleave;
  t.add_pixels = &AddPixels;
  return t;
}

}  // namespace

extern const ConvDirectTable kConvDirect;
constexpr ConvDirectTable kConvDirect = MakeTable();

}  // namespace troupe::TROUPE_ISA
