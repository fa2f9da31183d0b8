// Pooling over the windows of one NHWC image.
#include "troupe/kernels/nn/pool_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

// Calls f(output pixel, first row, past the last row, first column, past the last column) for every window, clipped to the image.
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

// Starts at the lowest finite number, as TensorFlow does: NaN is passed over.
template <class T>
void Max(const PoolShape& s, const T* x, T* y) {
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
inline __attribute__((always_inline)) void FindLargest(const PoolShape& s, const T* x, int64_t y0, int64_t y1, int64_t x0,
                                                       int64_t x1, int32_t* index, T* best) {
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

#define TROUPE_MAX_LOOPS(T) {&Max<T>, &MaxGrad<T>, &MaxGradGrad<T>}
extern const PoolTable kPools;
const PoolTable kPools = {TROUPE_MAX_LOOPS(float),    TROUPE_MAX_LOOPS(double),  TROUPE_MAX_LOOPS(int8_t),
                          TROUPE_MAX_LOOPS(uint8_t),  TROUPE_MAX_LOOPS(int16_t), TROUPE_MAX_LOOPS(uint16_t),
                          TROUPE_MAX_LOOPS(int32_t),  TROUPE_MAX_LOOPS(uint32_t), TROUPE_MAX_LOOPS(int64_t),
                          TROUPE_MAX_LOOPS(uint64_t), {&Avg<float>, &AvgGrad<float>}, {&Avg<double>, &AvgGrad<double>}};

}  // namespace troupe::TROUPE_ISA
