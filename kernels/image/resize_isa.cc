// Rows of images: bytes to floats, columns mixed, rows mixed.
#include "kernels/image/resize_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

typedef float Pixel __attribute__((vector_size(16), aligned(4), may_alias));

void FromBytes(const uint8_t* from, float* to, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

// Pixels of three or four channels are a vector; of three, its last lane is written over by the
// next pixel.
template <int kChannels>
void MixPixels(const float* row, const ColumnTap* taps, int64_t n, float* to) {
  for (int64_t x = 0; x < n; ++x, to += kChannels) {
    const Pixel lower = *reinterpret_cast<const Pixel*>(row + taps[x].lower);
    const Pixel upper = *reinterpret_cast<const Pixel*>(row + taps[x].upper);
    *reinterpret_cast<Pixel*>(to) = lower + (upper - lower) * taps[x].lerp;
  }
}

void MixColumns(const float* row, const ColumnTap* taps, int64_t n, int64_t channels, float* to) {
  if (channels == 3) return MixPixels<3>(row, taps, n, to);
  if (channels == 4) return MixPixels<4>(row, taps, n, to);
  if (channels == 1) {
    for (int64_t x = 0; x < n; ++x) {
      const float lower = row[taps[x].lower];
      to[x] = lower + (row[taps[x].upper] - lower) * taps[x].lerp;
    }
    return;
  }
  for (int64_t x = 0; x < n; ++x, to += channels) {
    const float* const lower = row + taps[x].lower;
    const float* const upper = row + taps[x].upper;
    const float lerp = taps[x].lerp;
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) to[c] = lower[c] + (upper[c] - lower[c]) * lerp;
  }
}

void MixRows(const float* above, const float* below, float lerp, float* to, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = above[i] + (below[i] - above[i]) * lerp;
}

}  // namespace

extern const ResizeLoops kResize;
const ResizeLoops kResize = {FromBytes, MixColumns, MixRows};

}  // namespace troupe::TROUPE_ISA
