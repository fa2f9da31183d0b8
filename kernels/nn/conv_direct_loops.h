// Convolutions of few channels by hand: where a layer has fewer than some 32 channels, the
// library's blocked kernels leave most of a vector empty.
//
// Four images are computed together: element e of the four is kept as four neighbouring floats, so
// a vector's lanes are (channel, image) and are all in use for any even number of channels, however
// small. An element of the input is one 16-byte broadcast; a weight is repeated four times in
// memory. A single image has lanes = channels. `together` is 4 or 1, and "element" means that many
// floats below.
//
// Lanes are counted in units: half a vector where vectors have 512 bits, a vector elsewhere. A
// chunk of a few units of the channels that are written is computed at a time, for up to 8 pixels
// (or taps): the sums stay in registers. An even number of 512-bit units is computed in whole
// vectors, 1 or 3 in halves.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_NN_CONV_DIRECT_LOOPS_H_
#define TROUPE_KERNELS_NN_CONV_DIRECT_LOOPS_H_

#include <cstdint>

namespace troupe {

// Cache lines from `at` on that the next four images will need; they are asked for bit by bit
// between the products.
struct ConvAhead {
  const char* at = nullptr;
  int64_t lines = 0;
};

// One row of output pixels: out(q) = sum over t < taps and k < run of element (offset[t] + q * step
// + k) of image * weights[t][k].
struct ConvRow {
  const int64_t* offset = nullptr;  // in bytes
  int64_t taps = 0, run = 0;
  int64_t step = 0;  // in bytes
  int64_t columns = 0;
  const float* image = nullptr;
  const float* weights = nullptr;  // [taps][run][lanes of the chunk]
  float* out = nullptr;            // [columns][out_lanes]
  int64_t out_lanes = 0;
  ConvAhead ahead;
};

// Sums over all output pixels: sums[j] += element (offset[j] + r * row_step + q * step) of image *
// d[r][q], for a chunk of the channels of d.
struct ConvGather {
  const int64_t* offset = nullptr;  // in bytes
  int64_t rows = 0, columns = 0;
  int64_t row_step = 0, step = 0;  // in bytes
  const float* image = nullptr;
  const float* d = nullptr;  // [rows][columns][d_lanes]; a vector beyond the last pixel is read
  int64_t d_lanes = 0;
  float* sums = nullptr;  // [taps][lanes of the chunk]
  ConvAhead ahead;
};

// Writes one row of results to its images: out[i][q * out_column + c] = min(max(row[q][c][i] +
// bias[c], low), high) * (relu[i][same place] > 0).
struct ConvFinish {
  const float* row = nullptr;  // [columns][lanes], whole vectors of 4 channels
  int64_t lanes = 0, columns = 0, channels = 0;
  const float* bias = nullptr;  // [channels, rounded up to whole fours]; -0 where there is none
  float low = 0, high = 0;
  int images = 0;  // of `together`; the others are dropped
  float* out[4] = {};
  const float* relu[4] = {};  // all null when there is no such factor
  int64_t out_column = 0;
};

struct ConvDirectTable {
  static constexpr int kMaxUnits = 6, kMaxTile = 8;
  int64_t unit;  // floats
  // [together == 4][units - 1][pixels or taps - 1]; null where there is no such loop (no number of
  // pixels at all: chunks of that many units are not for this level).
  void (*row[2][kMaxUnits][kMaxTile])(const ConvRow&);
  void (*gather[2][kMaxUnits][kMaxTile])(const ConvGather&);
  void (*finish[2])(const ConvFinish&);
  // to[e][i] = from[i][e] for e < n.
  void (*interleave)(const float* const from[4], int64_t n, float* to);
  // sums[l] += the sum of d[p][l] over p < pixels, l < lanes.
  void (*add_pixels)(const float* d, int64_t pixels, int64_t lanes, float* sums);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_DIRECT_LOOPS_H_
