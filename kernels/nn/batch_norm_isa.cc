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

void Moments(const float* x, double* mean, double* squares, float* scratch, int64_t rows, int64_t channels) {
  // Numbers far from zero lose fewer digits where the first of them is taken off.
  const float* const o = x;
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
      for (int64_t c = 0; c < channels; ++c) s[c] += row[c] - o[c];
    }
    const float inverse = 1.0f / static_cast<float>(n);
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) m[c] = o[c] + s[c] * inverse;
    for (int64_t r = 0; r < n; ++r) {
      const float* const row = from + r * channels;
#pragma GCC ivdep
      for (int64_t c = 0; c < channels; ++c) {
        const float d = row[c] - m[c];
        q[c] += d * d;
      }
    }
    // Chan, Golub and LeVeque (1979): the moments of two sets from those of each.
    const double all = static_cast<double>(done + n), of_mean = static_cast<double>(n) / all,
                 of_squares = static_cast<double>(n) * static_cast<double>(done) / all;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      const double here = static_cast<double>(o[c]) + static_cast<double>(s[c]) / static_cast<double>(n);
      const double away = here - (done == 0 ? 0.0 : mean[c]);
      mean[c] = done == 0 ? here : mean[c] + away * of_mean;
      squares[c] = (done == 0 ? 0.0 : squares[c]) + static_cast<double>(q[c]) + away * away * of_squares;
    }
    done += n;
  }
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
      sums[c] += static_cast<double>(s[c]);
      products[c] += static_cast<double>(p[c]);
    }
  }
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
