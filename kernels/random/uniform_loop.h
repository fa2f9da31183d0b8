// Uniform float32 numbers, sixteen Philox results at a time at the processor's instruction level.
//
// Thread rule: the loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_RANDOM_UNIFORM_LOOP_H_
#define TROUPE_KERNELS_RANDOM_UNIFORM_LOOP_H_

#include <cstdint>

#include "kernels/common/isa.h"

namespace troupe::random {

struct UniformLoop {
  // out[0 .. 4 * results): the numbers that Uniform<float> makes of so many results from `counter`
  // (four words) and `key` (two) on. REQUIRES: results is a multiple of kUniformBatch.
  void (*fill)(const uint32_t* counter, const uint32_t* key, float* out, int64_t results);
};
inline constexpr int kUniformBatch = 16;

}  // namespace troupe::random

TROUPE_ISA_TABLE(random::UniformLoop, kUniformLoop, PickUniformLoop)

#endif  // TROUPE_KERNELS_RANDOM_UNIFORM_LOOP_H_
