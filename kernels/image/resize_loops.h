// The loops of ResizeBilinear: bytes to floats, columns of a row mixed, two rows mixed.
//
// A row of the input is made floats once and its columns are mixed once, however many rows of the
// output need it; what is left for each of these is one loop over whole rows. Every loop rounds
// as (a + (b - a) * lerp) does without fused multiplication, so that results are TensorFlow's to
// the last bit at every instruction level (kernels/CMakeLists.txt has the option).
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_IMAGE_RESIZE_LOOPS_H_
#define TROUPE_KERNELS_IMAGE_RESIZE_LOOPS_H_

#include <cstdint>

namespace troupe {

// An output column lies between two pixels of a row, which begin at these elements.
struct ColumnTap {
  int64_t lower, upper;
  float lerp;
};
// So many floats behind a row that mix_columns reads or writes belong to the loop: pixels of three
// channels go through vectors of four.
constexpr int64_t kRowMargin = 1;

struct ResizeLoops {
  // to[i] = from[i]
  void (*from_bytes)(const uint8_t* from, float* to, int64_t n);
  // For each of n columns x and each channel c, with the pixels l and u of taps[x]:
  // to[x * channels + c] = row[l + c] + (row[u + c] - row[l + c]) * lerp
  void (*mix_columns)(const float* row, const ColumnTap* taps, int64_t n, int64_t channels, float* to);
  // to[i] = above[i] + (below[i] - above[i]) * lerp
  void (*mix_rows)(const float* above, const float* below, float lerp, float* to, int64_t n);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_IMAGE_RESIZE_LOOPS_H_
