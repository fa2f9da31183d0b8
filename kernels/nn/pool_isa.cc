// Pooling over the windows of one NHWC image.
#include "kernels/nn/pool_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

// Calls f(output pixel, first row, past the last row, first column, past the last column) for every
// window, clipped to the image.
template <class F>
inline __attribute__((always_inline)) void EachWindow(const PoolShape& s, F f) {
  for (int64_t i = 0; i < s.oh; ++i) {
    int64_t y0 = i * s.stride_h - s.top, y1 = y0 + s.kh;
    y0 = y0 < 0 ? 0 : y0;
    y1 = y1 > s.h ? s.h : y1;
    for (int64_t j = 0; j < s.ow; ++j) {
      int64_t x0 = j * s.stride_w - s.left, x1 = x0 + s.kw;
      x0 = x0 < 0 ? 0 : x0;
      x1 = x1 > s.w ? s.w : x1;
      f(i * s.ow + j, y0, y1, x0, x1);
    }
  }
}

template <class T>
constexpr T Lowest() {
  if constexpr (static_cast<T>(0.5) != T(0)) {
    return static_cast<T>(sizeof(T) == 4 ? -static_cast<double>(__FLT_MAX__) : -__DBL_MAX__);
  } else if constexpr (static_cast<T>(-1) > T(0)) {
    return T(0);
  } else {
    return static_cast<T>(static_cast<T>(1) << (sizeof(T) * 8 - 1));
  }
}

// float32 in registers: the lanes are up to 4 * kLanes channels of one window, and whoever walks
// the window keeps its results there. The last block of channels ends with the pixel; the lanes
// that it shares with the block before are computed twice, or skipped where that matters.
constexpr int kWidest = TROUPE_ISA_LEVEL >= 4 ? 16 : TROUPE_ISA_LEVEL == 3 ? 8 : 4;

template <int kLanes>
struct Lanes {
  typedef float Vec __attribute__((vector_size(kLanes * 4)));
  typedef float Load __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
  typedef int32_t Index __attribute__((vector_size(kLanes * 4)));
  static Vec Read(const float* p) { return *reinterpret_cast<const Load*>(p); }
  static void Write(float* p, Vec v) { *reinterpret_cast<Load*>(p) = v; }
};

// Calls f.operator()<lanes, vectors>(first channel, channels that are new) for all channels; false
// when they are too few for a vector.
template <int kLanes = kWidest, class F>
inline __attribute__((always_inline)) bool EachBlock(int64_t c, F f) {
  if (c < kLanes) {
    if constexpr (kLanes > 4) return EachBlock<kLanes / 2>(c, f);
    return false;
  }
  int64_t k = 0;
  for (; k + 4 * kLanes <= c; k += 4 * kLanes) f.template operator()<kLanes, 4>(k, int64_t{kLanes} * 4);
  for (; k + kLanes <= c; k += kLanes) f.template operator()<kLanes, 1>(k, int64_t{kLanes});
  if (k < c) f.template operator()<kLanes, 1>(c - kLanes, c - k);
  return true;
}

template <int kLanes, int kVectors, bool kMean>
inline __attribute__((always_inline)) void Reduce(const PoolShape& s, const float* x, float* y, int64_t y0, int64_t y1,
                                                  int64_t x0, int64_t x1) {
  using L = Lanes<kLanes>;
  using Vec = typename L::Vec;
  Vec acc[kVectors];
  for (Vec& v : acc) v = kMean ? Vec{} : Vec{} - __FLT_MAX__;
  for (int64_t r = y0; r < y1; ++r) {
    const float* in = x + (r * s.w + x0) * s.c;
    for (int64_t q = x0; q < x1; ++q, in += s.c) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        const Vec v = L::Read(in + i * kLanes);
        if constexpr (kMean) {
          acc[i] += v;
        } else {
          acc[i] = v > acc[i] ? v : acc[i];
        }
      }
    }
  }
  const float count = static_cast<float>((y1 - y0) * (x1 - x0));
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) L::Write(y + i * kLanes, kMean && count > 0 ? acc[i] / count : acc[i]);
}

template <bool kMean>
bool ReduceAll(const PoolShape& s, const float* x, float* y) {
  if (s.c < 4) return false;
  EachWindow(s, [&](int64_t p, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    y1 = y1 < y0 ? y0 : y1, x1 = x1 < x0 ? x0 : x1;
    EachBlock(s.c, [&]<int kLanes, int kVectors>(int64_t k, int64_t) {
      Reduce<kLanes, kVectors, kMean>(s, x + k, y + p * s.c + k, y0, y1, x0, x1);
    });
  });
  return true;
}

// dx[the first largest of the window] += g, for the last `fresh` of the lanes.
template <int kLanes, int kVectors>
inline __attribute__((always_inline)) void ScatterLargest(const PoolShape& s, const float* x, const float* g, float* dx,
                                                          int64_t y0, int64_t y1, int64_t x0, int64_t x1,
                                                          int64_t fresh) {
  using L = Lanes<kLanes>;
  using Vec = typename L::Vec;
  using Index = typename L::Index;
  Vec best[kVectors], d[kVectors];
  Index at[kVectors];
  const float* in = x + (y0 * s.w + x0) * s.c;
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i)
    best[i] = L::Read(in + i * kLanes), at[i] = Index{}, d[i] = L::Read(g + i * kLanes);
  int32_t n = 0;
  for (int64_t r = y0; r < y1; ++r) {
    in = x + (r * s.w + x0) * s.c;
    for (int64_t q = x0; q < x1; ++q, in += s.c, ++n) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        const Vec v = L::Read(in + i * kLanes);
        const Index more = v > best[i];
        best[i] = more ? v : best[i];
        at[i] = more ? Index{} + n : at[i];
      }
    }
  }
  if (kVectors == 1 && fresh < kLanes) {
    Index lane;
    for (int i = 0; i < kLanes; ++i) lane[i] = i;
    at[0] = lane < static_cast<int32_t>(kLanes - fresh) ? Index{} - 1 : at[0];
  }
  n = 0;
  for (int64_t r = y0; r < y1; ++r) {
    float* out = dx + (r * s.w + x0) * s.c;
    for (int64_t q = x0; q < x1; ++q, out += s.c, ++n) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i)
        L::Write(out + i * kLanes, L::Read(out + i * kLanes) + (at[i] == n ? d[i] : Vec{}));
    }
  }
}

bool ScatterAll(const PoolShape& s, const float* x, const float* dy, float* dx) {
  if (s.c < 4) return false;
  EachWindow(s, [&](int64_t p, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    if (y0 >= y1 || x0 >= x1) return;
    EachBlock(s.c, [&]<int kLanes, int kVectors>(int64_t k, int64_t fresh) {
      ScatterLargest<kLanes, kVectors>(s, x + k, dy + p * s.c + k, dx + k, y0, y1, x0, x1, fresh);
    });
  });
  return true;
}

template <class T>
constexpr bool kIsFloat = static_cast<T>(0.5) != T(0) && sizeof(T) == 4;

// Starts at the lowest finite number, as TensorFlow does: NaN is passed over.
template <class T>
void Max(const PoolShape& s, const T* x, T* y) {
  if constexpr (kIsFloat<T>) {
    if (ReduceAll<false>(s, x, y)) return;
  }
  EachWindow(s, [&](int64_t p, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    T* out = y + p * s.c;
    for (int64_t k = 0; k < s.c; ++k) out[k] = Lowest<T>();
    for (int64_t r = y0; r < y1; ++r) {
      for (int64_t q = x0; q < x1; ++q) {
        const T* in = x + (r * s.w + q) * s.c;
#pragma GCC ivdep
        for (int64_t k = 0; k < s.c; ++k) out[k] = in[k] > out[k] ? in[k] : out[k];
      }
    }
  });
}

// index[k] = the pixel of the first largest element of channel k in the window.
template <class T>
inline __attribute__((always_inline)) void FindLargest(const PoolShape& s, const T* x, int64_t y0, int64_t y1,
                                                       int64_t x0, int64_t x1, int32_t* index, T* best) {
  const int64_t first = y0 * s.w + x0;
  for (int64_t k = 0; k < s.c; ++k) {
    best[k] = x[first * s.c + k];
    index[k] = static_cast<int32_t>(first);
  }
  for (int64_t r = y0; r < y1; ++r) {
    for (int64_t q = x0; q < x1; ++q) {
      const int32_t pixel = static_cast<int32_t>(r * s.w + q);
      const T* in = x + static_cast<int64_t>(pixel) * s.c;
#pragma GCC ivdep
      for (int64_t k = 0; k < s.c; ++k) {
        const bool more = in[k] > best[k];
        best[k] = more ? in[k] : best[k];
        index[k] = more ? pixel : index[k];
      }
    }
  }
}

template <class T>
void MaxGrad(const PoolShape& s, const T* x, const T* dy, T* dx, int32_t* index, T* best) {
  if constexpr (kIsFloat<T>) {
    if (ScatterAll(s, x, dy, dx)) return;
  }
  EachWindow(s, [&](int64_t p, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    if (y0 >= y1 || x0 >= x1) return;
    FindLargest(s, x, y0, y1, x0, x1, index, best);
    const T* g = dy + p * s.c;
    for (int64_t k = 0; k < s.c; ++k) dx[static_cast<int64_t>(index[k]) * s.c + k] += g[k];
  });
}

template <class T>
void MaxGradGrad(const PoolShape& s, const T* x, const T* ddx, T* ddy, int32_t* index, T* best) {
  EachWindow(s, [&](int64_t p, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    T* out = ddy + p * s.c;
    if (y0 >= y1 || x0 >= x1) {
      for (int64_t k = 0; k < s.c; ++k) out[k] = T(0);
      return;
    }
    FindLargest(s, x, y0, y1, x0, x1, index, best);
    for (int64_t k = 0; k < s.c; ++k) out[k] = ddx[static_cast<int64_t>(index[k]) * s.c + k];
  });
}

template <class T>
void Avg(const PoolShape& s, const T* x, T* y) {
  if constexpr (kIsFloat<T>) {
    if (ReduceAll<true>(s, x, y)) return;
  }
  EachWindow(s, [&](int64_t p, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    T* out = y + p * s.c;
    for (int64_t k = 0; k < s.c; ++k) out[k] = T(0);
    if (y0 >= y1 || x0 >= x1) return;
    for (int64_t r = y0; r < y1; ++r) {
      for (int64_t q = x0; q < x1; ++q) {
        const T* in = x + (r * s.w + q) * s.c;
#pragma GCC ivdep
        for (int64_t k = 0; k < s.c; ++k) out[k] += in[k];
      }
    }
    const T count = static_cast<T>((y1 - y0) * (x1 - x0));
    for (int64_t k = 0; k < s.c; ++k) out[k] /= count;
  });
}

template <class T>
void AvgGrad(const PoolShape& s, const T* dy, T* dx) {
  EachWindow(s, [&](int64_t p, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    if (y0 >= y1 || x0 >= x1) return;
    const T* g = dy + p * s.c;
    const T share = T(1) / static_cast<T>((y1 - y0) * (x1 - x0));
    for (int64_t r = y0; r < y1; ++r) {
      for (int64_t q = x0; q < x1; ++q) {
        T* out = dx + (r * s.w + q) * s.c;
#pragma GCC ivdep
        for (int64_t k = 0; k < s.c; ++k) out[k] += g[k] * share;
      }
    }
  });
}

}  // namespace

#define TROUPE_MAX_LOOPS(T) \
  { &Max<T>, &MaxGrad<T>, &MaxGradGrad<T> }
extern const PoolTable kPools;
const PoolTable kPools = {TROUPE_MAX_LOOPS(float),    TROUPE_MAX_LOOPS(double),       TROUPE_MAX_LOOPS(int8_t),
                          TROUPE_MAX_LOOPS(uint8_t),  TROUPE_MAX_LOOPS(int16_t),      TROUPE_MAX_LOOPS(uint16_t),
                          TROUPE_MAX_LOOPS(int32_t),  TROUPE_MAX_LOOPS(uint32_t),     TROUPE_MAX_LOOPS(int64_t),
                          TROUPE_MAX_LOOPS(uint64_t), {&Avg<float>, &AvgGrad<float>}, {&Avg<double>, &AvgGrad<double>}};

}  // namespace troupe::TROUPE_ISA
