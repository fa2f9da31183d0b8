// Numbers that every program of a comparison makes in the same way (rivals/drawn.py makes them in
// Python).
//
// Thread rule: a plain value.
#ifndef TROUPE_TOOLS_BENCHMARKS_DRAW_H_
#define TROUPE_TOOLS_BENCHMARKS_DRAW_H_

#include <cstdint>

namespace troupe::bench {

// A linear congruential generator, of which the upper 24 bits count.
class Draw {
 public:
  explicit Draw(uint32_t seed = 1) : state_(seed) {}
  uint32_t operator()() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }

  // Of [0, 1), in steps of 2^-16.
  float Unit() { return static_cast<float>((*this)() % 65536) / 65536; }
  // Of [0, n), n < 2^31: small numbers are frequent, as are the frequent words of a text that is
  // numbered by frequency. The share of numbers below k is the cube root of k / n.
  int64_t Word(int64_t n) {
    const uint64_t u = (*this)() % (1u << 21);
    return static_cast<int64_t>(((u * u * u >> 31) * static_cast<uint64_t>(n)) >> 32);
  }

 private:
  uint32_t state_;
};

}  // namespace troupe::bench

#endif  // TROUPE_TOOLS_BENCHMARKS_DRAW_H_
