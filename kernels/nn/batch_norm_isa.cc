// Batch normalisation, row by row with the channels as lanes.
#include <algorithm>

#include "kernels/nn/batch_norm_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

// Few enough rows for sums in float32 and for the cache, so many that float64 costs little.
int64_t BlockRows(int64_t channels) { return std::clamp<int64_t>(32768 / std::max<int64_t>(channels, 1), 8, 64); }

void Clear(float* v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) v[i] = 0;
}

bool AllFinite(const double* v, int64_t n) {
  double zero = 0;
  for (int64_t i = 0; i < n; ++i) zero += v[i] * 0;
  return zero == 0;
}

// Where sums of float32 overflow.
void WideMoments(const float* x, double* mean, double* squares, int64_t rows, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, square = 0;
    for (int64_t r = 0; r < rows; ++r) sum += static_cast<double>(x[r * channels + c]);
    mean[c] = sum / static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double d = static_cast<double>(x[r * channels + c]) - mean[c];
      square += d * d;
    }
    squares[c] = square;
  }
}

void Moments(const float* x, double* mean, double* squares, float* scratch, int64_t rows, int64_t channels) {
  float *const s = scratch, *const m = scratch + channels, *const q = scratch + 2 * channels;
  const int64_t block = BlockRows(channels);
  for (int64_t done = 0; done < rows;) {
    const int64_t n = std::min(block, rows - done);
    const float* const from = x + done * channels;
    Clear(s, channels);
    Clear(q, channels);
    for (int64_t r = 0; r < n; ++r) {
      const float* const row = from + r * channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) s[c] += row[c];
    }
    const float inverse = 1.0f / static_cast<float>(n);
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      m[c] = s[c] * inverse;
      s[c] = 0;
    }
    for (int64_t r = 0; r < n; ++r) {
      const float* const row = from + r * channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        const float d = row[c] - m[c];
        s[c] += d;
        q[c] += d * d;
      }
    }
    // What m lacks of the block's mean is in s, however inexact the first sum was. Then Chan, Golub
    // and LeVeque (1979): the moments of two sets from those of each.
    const double here = static_cast<double>(n), before = static_cast<double>(done), all = before + here,
                 of_squares = here * before / all;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const double rest = static_cast<double>(s[c]), own = static_cast<double>(m[c]) + rest / here;
      const double old = done == 0 ? 0.0 : mean[c], away = own - old;
      const double square = static_cast<double>(q[c]) - rest * rest / here;
      mean[c] = (old * before + own * here) / all;
      squares[c] =
          (done == 0 ? 0.0 : squares[c]) + (square > 0 || square != square ? square : 0.0) + away * away * of_squares;
    }
    done += n;
  }
  if (!AllFinite(mean, channels) || !AllFinite(squares, channels)) WideMoments(x, mean, squares, rows, channels);
}

struct None {
  static float F(float y) { return y; }
  static float G(float dy, float) { return dy; }
};
// As Relu and Relu6 by themselves (elementwise/activation_isa.cc), so NaN * 0 stays NaN.
struct Relu {
  static float F(float y) { return y < 0 ? 0 : y; }
  static float G(float dy, float y) { return dy * static_cast<float>(y > 0); }
};
struct Relu6 {
  static float F(float y) { return y < 0 ? 0 : y > 6 ? 6 : y; }
  static float G(float dy, float y) { return dy * static_cast<float>((y > 0) & (y < 6)); }
};

// One expression for both ways, so that the gradient's has the bits of the forward pass.
inline __attribute__((always_inline)) float Normed(float away, float a, float b) { return away * a + b; }

// Where sums of float32 overflow.
template <class A>
void WideSumProducts(const float* dy, const float* x, const NormVectors& v, double* sums, double* products,
                     int64_t rows, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) {
    sums[c] = products[c] = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float away = x[r * channels + c] - v.mean[c], g = A::G(dy[r * channels + c], Normed(away, v.a[c], v.b[c]));
      sums[c] += static_cast<double>(g);
      products[c] += static_cast<double>(g) * static_cast<double>(away);
    }
  }
}

template <class A>
void SumProducts(const float* dy, const float* x, const NormVectors& v, double* sums, double* products, float* scratch,
                 int64_t rows, int64_t channels) {
  float *const s = scratch, *const p = scratch + channels;
  const int64_t block = BlockRows(channels);
  const float *const mean = v.mean, *const a = v.a, *const b = v.b;
  for (int64_t done = 0; done < rows; done += block) {
    const int64_t n = std::min(block, rows - done);
    Clear(s, channels);
    Clear(p, channels);
    for (int64_t r = done; r < done + n; ++r) {
      const float *const g_row = dy + r * channels, *const x_row = x + r * channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        const float away = x_row[c] - mean[c], g = A::G(g_row[c], Normed(away, a[c], b[c]));
        s[c] += g;
        p[c] += g * away;
      }
    }
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] = (done == 0 ? 0.0 : sums[c]) + static_cast<double>(s[c]);
      products[c] = (done == 0 ? 0.0 : products[c]) + static_cast<double>(p[c]);
    }
  }
  if (rows > 0 && (!AllFinite(sums, channels) || !AllFinite(products, channels)))
    WideSumProducts<A>(dy, x, v, sums, products, rows, channels);
}

template <class A>
void Scale(const float* x, const NormVectors& v, float* y, int64_t rows, int64_t channels) {
  const float *const mean = v.mean, *const a = v.a, *const b = v.b;
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) y[c] = A::F(Normed(x[c] - mean[c], a[c], b[c]));
  }
}

template <class A>
void Combine(const float* dy, const float* x, const NormVectors& v, const float* p, const float* q, const float* k,
             float* dx, int64_t rows, int64_t channels) {
  const float *const mean = v.mean, *const a = v.a, *const b = v.b;
  for (int64_t r = 0; r < rows; ++r, x += channels, dy += channels, dx += channels) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const float away = x[c] - mean[c];
      dx[c] = A::G(dy[c], Normed(away, a[c], b[c])) * p[c] + away * q[c] + k[c];
    }
  }
}

}  // namespace

extern const BatchNormTable kBatchNorm;
const BatchNormTable kBatchNorm = {&Moments,
                                   {&SumProducts<None>, &SumProducts<Relu>, &SumProducts<Relu6>},
                                   {&Scale<None>, &Scale<Relu>, &Scale<Relu6>},
                                   {&Combine<None>, &Combine<Relu>, &Combine<Relu6>}};

}  // namespace troupe::TROUPE_ISA
