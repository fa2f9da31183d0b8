// Convolutions of few channels by hand: where a layer writes at most 8 channels, the library's blocked kernels leave most of a vector empty.
//
// The lanes are the channels that are written; the pixels of one image, padded once into scratch memory, are read by broadcast. The gradient of the
// input is, for each phase of the stride, the same loop over the output's gradient with the filter turned round.
#ifndef TROUPE_KERNELS_NN_CONV_DIRECT_LOOPS_H_
#define TROUPE_KERNELS_NN_CONV_DIRECT_LOOPS_H_

#include <cstdint>

namespace troupe {

// Correlates a padded image with packed weights: out(r, q) = sum over ty < taps and k < run of image[(r * row_step + ty) * row + q * column_step + k] * weights[ty][k].
// An image row has `row` floats; a row of taps reads `run` neighbouring floats, which are the tap columns times the channels.
struct Correlation {
  int64_t rows = 0, columns = 0;          // of the output
  int64_t taps = 0, run = 0;
  int64_t row = 0, row_step = 0, column_step = 0;
  int64_t out_row = 0, out_column = 0;    // floats from one output row (column) to the next
  int64_t channels = 0;                   // written per output pixel, at most `lanes`
};

struct ConvDirectTable {
  int64_t lanes;  // 8, or 0 at a level that has no such loops
  // weights: [taps][run][lanes].
  void (*correlate)(const Correlation& c, const float* image, const float* weights, float* out);
  // weights[ty][k] += the sum over output pixels of image (as above) * d, with d: [rows][columns][lanes].
  void (*gather)(const Correlation& c, const float* image, const float* d, float* weights);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_DIRECT_LOOPS_H_
