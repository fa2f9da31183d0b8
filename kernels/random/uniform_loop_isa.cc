#include "kernels/random/uniform_loop.h"

#include <cstring>

namespace troupe::TROUPE_ISA {
namespace {

constexpr int kLanes = random::kUniformBatch;

// One batch: lane i holds the result number i. Written over arrays, so that the compiler turns
// every statement into vector instructions.
inline void Batch(uint64_t low, uint64_t high, const uint32_t* key, float* __restrict__ out) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t at = low + static_cast<uint64_t>(i), above = high + (at < low ? 1 : 0);
    c0[i] = static_cast<uint32_t>(at);
    c1[i] = static_cast<uint32_t>(at >> 32);
    c2[i] = static_cast<uint32_t>(above);
    c3[i] = static_cast<uint32_t>(above >> 32);
  }
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = uint64_t{0xD2511F53u} * c0[i], b = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(b >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(b);
      c2[i] = static_cast<uint32_t>(a >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  uint32_t bits[4 * kLanes];
  for (int i = 0; i < kLanes; ++i) {
    bits[4 * i] = c0[i];
    bits[4 * i + 1] = c1[i];
    bits[4 * i + 2] = c2[i];
    bits[4 * i + 3] = c3[i];
  }
  for (int i = 0; i < 4 * kLanes; ++i) {
    // A number of [1, 2) with these mantissa bits, less 1.
    const uint32_t one_to_two = 127u << 23 | (bits[i] & 0x7fffffu);
    float f;
    std::memcpy(&f, &one_to_two, sizeof f);
    out[i] = f - 1.0f;
  }
}

void Fill(const uint32_t* counter, const uint32_t* key, float* out, int64_t results) {
  uint64_t low = static_cast<uint64_t>(counter[1]) << 32 | counter[0];
  uint64_t high = static_cast<uint64_t>(counter[3]) << 32 | counter[2];
  for (int64_t done = 0; done < results; done += kLanes) {
    Batch(low, high, key, out + 4 * done);
    low += kLanes;
    if (low < static_cast<uint64_t>(kLanes)) ++high;
  }
}

}  // namespace

extern const random::UniformLoop kUniformLoop;
const random::UniformLoop kUniformLoop = {Fill};

}  // namespace troupe::TROUPE_ISA
