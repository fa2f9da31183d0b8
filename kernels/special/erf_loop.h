// The loop of Erf of floats, one per instruction level.
//
// The largest error is 2 units in the last place, measured over all floats in steps
// (tests/elementwise/isa_test.cc holds it). NaN stays NaN, infinities give 1 and -1.
//
// Thread rule: the loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_SPECIAL_ERF_LOOP_H_
#define TROUPE_KERNELS_SPECIAL_ERF_LOOP_H_

#include <cstdint>

namespace troupe {

// n floats; y may be x.
struct ErfLoop {
  void (*run)(const void* x, void* y, int64_t n);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_SPECIAL_ERF_LOOP_H_
