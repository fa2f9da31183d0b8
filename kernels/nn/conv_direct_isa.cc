// Direct convolutions: tiles of two rows by up to seven pixels (or taps) stay in registers.
#include "troupe/kernels/nn/conv_direct_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

#if TROUPE_ISA_LEVEL >= 3

template <int kLanes>
struct Lanes {
  typedef float Vec __attribute__((vector_size(kLanes * 4)));
  typedef float Load __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
};

template <int L>
inline __attribute__((always_inline)) void Store(const typename Lanes<L>::Vec& v, float* out, int64_t channels) {
  if (channels == L) {
    *reinterpret_cast<typename Lanes<L>::Load*>(out) = v;
    return;
  }
  alignas(64) float edge[L];
  *reinterpret_cast<typename Lanes<L>::Vec*>(edge) = v;
  int64_t i = 0;
  if (channels & 4) __builtin_memcpy(out, edge, 16), i = 4;
  if (channels & 2) __builtin_memcpy(out + i, edge + i, 8), i += 2;
  if (channels & 1) out[i] = edge[i];
}

// R output rows by P output columns.
template <int L, int R, int P>
inline __attribute__((always_inline)) void Tile(const Correlation& c, const float* image, const float* weights, float* out) {
  using Vec = typename Lanes<L>::Vec;
  using Load = typename Lanes<L>::Load;
  Vec acc[R][P] = {};
  // Seven pixels by three steps and the addressing modes' factors 1, 2 and 4: with a pointer for each, they would be kept on the stack.
  const int64_t one = c.column_step * 4, three = 3 * one, five = 5 * one, down = R > 1 ? c.row_step * c.row * 4 : 0;
  const int64_t steps[4] = {0, one, three, five};
  for (int64_t ty = 0; ty < c.taps; ++ty) {
    const char* in0 = reinterpret_cast<const char*>(image + ty * c.row);
    const char* in1 = in0 + down;
    const float* w = weights + ty * c.run * L;
    for (const float* const end = w + c.run * L; w != end; w += L, in0 += 4, in1 += 4) {
      asm("" : "+r"(in0), "+r"(in1));  // keeps the compiler from making pointers of the sums below
      const Vec wk = *reinterpret_cast<const Load*>(w);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          constexpr int kStep[7] = {0, 1, 1, 2, 1, 3, 2}, kFactor[7] = {1, 1, 2, 1, 4, 1, 2};
          acc[r][p] += wk * *reinterpret_cast<const float*>((r == 0 ? in0 : in1) + kFactor[p] * steps[kStep[p]]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) Store<L>(acc[r][p], out + r * c.out_row + p * c.out_column, c.channels);
  }
}

template <int L, int R>
void Row(const Correlation& c, const float* image, const float* weights, float* out) {
  int64_t q = 0;
  for (; q + 7 <= c.columns; q += 7) Tile<L, R, 7>(c, image + q * c.column_step, weights, out + q * c.out_column);
  if (q + 4 <= c.columns) {
    Tile<L, R, 4>(c, image + q * c.column_step, weights, out + q * c.out_column);
    q += 4;
  }
  if (q + 2 <= c.columns) {
    Tile<L, R, 2>(c, image + q * c.column_step, weights, out + q * c.out_column);
    q += 2;
  }
  if (q < c.columns) Tile<L, R, 1>(c, image + q * c.column_step, weights, out + q * c.out_column);
}

template <int L>
void Correlate(const Correlation& c, const float* image, const float* weights, float* out) {
  int64_t r = 0;
  for (; r + 2 <= c.rows; r += 2) Row<L, 2>(c, image + r * c.row_step * c.row, weights, out + r * c.out_row);
  if (r < c.rows) Row<L, 1>(c, image + r * c.row_step * c.row, weights, out + r * c.out_row);
}

// R rows of taps by K neighbouring elements of their runs.
template <int L, int R, int K>
inline __attribute__((always_inline)) void GatherTile(const Correlation& c, const float* image, const float* d, float* weights) {
  using Vec = typename Lanes<L>::Vec;
  using Load = typename Lanes<L>::Load;
  Vec acc[R][K] = {};
  for (int64_t r = 0; r < c.rows; ++r) {
    const float *in = image + r * c.row_step * c.row, *g = d + r * c.columns * L;
    for (int64_t q = 0; q < c.columns; ++q, in += c.column_step, g += L) {
      const Vec gv = *reinterpret_cast<const Load*>(g);
#pragma GCC unroll 2
      for (int t = 0; t < R; ++t) {
#pragma GCC unroll 8
        for (int k = 0; k < K; ++k) acc[t][k] += gv * in[t * c.row + k];
      }
    }
  }
#pragma GCC unroll 2
  for (int t = 0; t < R; ++t) {
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      Load* w = reinterpret_cast<Load*>(weights + (t * c.run + k) * L);
      *w = *w + acc[t][k];
    }
  }
}

template <int L, int R>
void GatherRows(const Correlation& c, const float* image, const float* d, float* weights) {
  int64_t k = 0;
  for (; k + 6 <= c.run; k += 6) GatherTile<L, R, 6>(c, image + k, d, weights + k * L);
  if (k + 4 <= c.run) {
    GatherTile<L, R, 4>(c, image + k, d, weights + k * L);
    k += 4;
  }
  if (k + 2 <= c.run) {
    GatherTile<L, R, 2>(c, image + k, d, weights + k * L);
    k += 2;
  }
  if (k < c.run) GatherTile<L, R, 1>(c, image + k, d, weights + k * L);
}

template <int L>
void Gather(const Correlation& c, const float* image, const float* d, float* weights) {
  int64_t t = 0;
  for (; t + 2 <= c.taps; t += 2) GatherRows<L, 2>(c, image + t * c.row, d, weights + t * c.run * L);
  if (t < c.taps) GatherRows<L, 1>(c, image + t * c.row, d, weights + t * c.run * L);
}

#endif  // TROUPE_ISA_LEVEL >= 3

}  // namespace

extern const ConvDirectTable kConvDirect;
#if TROUPE_ISA_LEVEL >= 3
const ConvDirectTable kConvDirect = {8, &Correlate<8>, &Gather<8>};
#else
const ConvDirectTable kConvDirect = {0, nullptr, nullptr};
#endif

}  // namespace troupe::TROUPE_ISA
