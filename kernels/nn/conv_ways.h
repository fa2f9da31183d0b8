// In which ways a float32 convolution may be computed: by which loops, and how it is shared among
// threads.
//
// A rule chooses by the shape (docs/convolutions.md). Where tuning is on (troupe/tuning.h), the
// other ways compete with it.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_NN_CONV_WAYS_H_
#define TROUPE_KERNELS_NN_CONV_WAYS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/nn/conv_epilogue.h"
#include "kernels/nn/conv_shape.h"
#include "kernels/tune/choice_table.h"

namespace troupe {

enum class ConvLoops : uint8_t { kPointwise, kDirect, kLibrary };

// The work is a number of units, which are images, or parts of the rows of images (bands), or of
// the direct way groups of images or halves of these. They are shared out in ranges.
struct ConvWay {
  ConvLoops loops = ConvLoops::kLibrary;
  int64_t bands = 1;  // of an image
  int64_t ranges = 1;
};

// How many units a way of these loops has.
int64_t ConvUnits(ConvPass pass, const ConvShape& s, ConvLoops loops, int64_t bands);
// Into how many bands of rows each image is cut, so that the threads share a small number of images
// evenly. 1: whole images are as good, or rows of some band would read padding alone. Of a gradient
// of the filter there are none. Bands are rows of WithBands: for windows of one pixel an image is
// one column of its pixels, which are shared more evenly than a few rows.
ConvShape WithBands(const ConvShape& s);
int64_t ConvBands(ConvPass pass, const ConvShape& s, int64_t threads);
// So many ranges, and no more than pay. `cost`: of one multiplication, as often as of float32.
int64_t ConvRanges(const ConvShape& s, int64_t units, int64_t wanted, double cost = 1);

ConvWay ConvWayByRule(int threads, ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e);

// What tuning knows a convolution by: all that its time depends on.
tune::Key ConvKey(int threads, ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e, bool constant_filter);

// All ways that are worth trying, that of the rule first.
struct ConvWays {
  ConvWays(int threads, ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e);
  std::vector<tune::Way> Names() const;

  std::array<ConvWay, 12> way;
  int count = 0;

 private:
  void AddSplits(int threads, ConvLoops loops, const ConvShape& s);
  void Add(const ConvWay& w);
  const ConvPass pass_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_WAYS_H_
