// Adding a repeating pattern, and summing by one.
#include "kernels/nn/bias_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

template <class T>
void Add(const T* x, const T* pattern, T* y, int64_t n, int64_t period) {
  for (int64_t i = 0; i < n; i += period) {
    const int64_t len = n - i < period ? n - i : period;
#pragma GCC ivdep
    for (int64_t j = 0; j < len; ++j) y[i + j] = static_cast<T>(x[i + j] + pattern[j]);
  }
}

template <class T>
void Sum(const T* x, T* sums, int64_t n, int64_t period) {
  for (int64_t i = 0; i < n; i += period) {
    const int64_t len = n - i < period ? n - i : period;
#pragma GCC ivdep
    for (int64_t j = 0; j < len; ++j) sums[j] = static_cast<T>(sums[j] + x[i + j]);
  }
}

}  // namespace

extern const BiasTable kBias;
const BiasTable kBias = {{&Add<float>, &Sum<float>},       {&Add<double>, &Sum<double>},
                         {&Add<uint8_t>, &Sum<uint8_t>},   {&Add<uint16_t>, &Sum<uint16_t>},
                         {&Add<uint32_t>, &Sum<uint32_t>}, {&Add<uint64_t>, &Sum<uint64_t>}};

}  // namespace troupe::TROUPE_ISA
