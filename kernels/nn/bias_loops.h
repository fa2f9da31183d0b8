// The loops of BiasAdd and BiasAddGrad. A bias of few channels would leave most of a vector empty,
// so it is repeated to a pattern of `period` elements (a multiple of the channels) first, and the
// loops know patterns only.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_NN_BIAS_LOOPS_H_
#define TROUPE_KERNELS_NN_BIAS_LOOPS_H_

#include <cstdint>

namespace troupe {

template <class T>
struct BiasLoops {
  // y[i] = x[i] + pattern[i % period]; in place is fine.
  void (*add)(const T* x, const T* pattern, T* y, int64_t n, int64_t period);
  // sums[i % period] += x[i].
  void (*sum)(const T* x, T* sums, int64_t n, int64_t period);
};

struct BiasTable {
  BiasLoops<float> f32;
  BiasLoops<double> f64;
  BiasLoops<uint8_t> u8;
  BiasLoops<uint16_t> u16;
  BiasLoops<uint32_t> u32;
  BiasLoops<uint64_t> u64;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_BIAS_LOOPS_H_
