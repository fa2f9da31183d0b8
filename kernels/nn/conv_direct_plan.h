// What the passes of the direct convolutions share: scratch memory, the channels cut into chunks,
// packed weights, padded images.
//
// Only for conv_direct.cc. Lengths are in floats unless they are in "elements", which are
// `together` (4 or 1) floats each. Thread rule: everything belongs to the calling thread.
#ifndef TROUPE_KERNELS_NN_CONV_DIRECT_PLAN_H_
#define TROUPE_KERNELS_NN_CONV_DIRECT_PLAN_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/nn/conv_direct.h"
#include "kernels/nn/conv_direct_loops.h"

namespace troupe::conv {

inline constexpr int64_t kLine = 16;  // floats of a cache line
inline constexpr int64_t kFour = kConvTogether;

inline int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Memory of the calling thread that later calls find again, aligned to 64 bytes: what a shape needs
// is bounded by what DirectConv takes.
enum Use { kImages, kWeights, kRow, kGradients, kSums, kUses };
float* Scratch(Use use, int64_t n);

// A part of the channels that are written, as the loops take it.
struct Chunk {
  int64_t first, channels;  // the last lanes may have no channel
  int64_t units, lanes;
};
std::vector<Chunk> Chunks(const ConvDirectTable& t, int64_t channels, int64_t together);

// Where the products of one output pixel lie in a padded image, in elements: `run` neighbours from
// each offset on.
struct Taps {
  std::vector<int64_t> offset;
  int64_t run = 0;
};
std::vector<int64_t> Bytes(std::vector<int64_t> elements, int64_t together);

// Packs the weights w[k * k_step + channel * channel_step] of a chunk for k < count, each
// `together` times; returns where it ended.
float* PackWeights(const Chunk& c, int64_t together, int64_t count, const float* w, int64_t k_step,
                   int64_t channel_step, float* to);

using ConvRowLoops = void (*const[ConvDirectTable::kMaxTile])(const ConvRow&);
// The most pixels at a time, such that little is computed twice at the end of a row of `columns`.
int TileFor(const ConvRowLoops& tiles, int64_t columns);

// Part `i` of `parts` of n floats. They may lie beyond a tensor: they are asked for, not read.
ConvAhead Ahead(const float* p, int64_t n, int64_t i, int64_t parts);

// Padded images in scratch memory, `together` at a time. Rows are placed as they are needed.
struct Images {
  const ConvDirectTable& table;
  const int64_t together, height, width, channels, top, left, rows, row;  // row: elements
  float* data;
  const float* from[4] = {};
  int64_t placed = 0;  // rows of the sources

  // Of images [h, w, c] whose first pixel is at (top, left) of rows x columns; what lies beyond is
  // cut off.
  Images(const ConvDirectTable& t, int64_t together, int64_t h, int64_t w, int64_t c, int64_t top, int64_t left,
         int64_t rows, int64_t columns);
  // Starts with `count` images at `images`; the rest of the four are zeros, since what is computed
  // of them may be added to the others': another image would be multiplied by their zeros, and give
  // NaN where it is not finite.
  void Start(const float* images, int64_t count);
  // Makes the first `limit` rows of the padded images valid.
  void Place(int64_t limit);

 private:
  const int64_t source_row_;
  int64_t count_ = 0;
  std::vector<float> zeros_;  // a row
};

// Everything of ConvFinish that is the same for all rows, and the bias of each chunk.
struct Finisher {
  ConvFinish f;
  std::vector<float> bias;
  Finisher(const std::vector<Chunk>& chunks, const ConvEpilogue<float>& e);
};

}  // namespace troupe::conv

#endif  // TROUPE_KERNELS_NN_CONV_DIRECT_PLAN_H_
