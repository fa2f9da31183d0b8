// Numbers made of random bits, bit for bit as TensorFlow makes them.
//
// A distribution gives kGroup numbers per call: from one Philox result, or (kVariable) from as many
// words as it takes, of at most kReserved results per number, in which case every group has its own
// place in the stream.
//
// Thread rule: a distribution has no state; the Philox that it is given belongs to the caller.
#ifndef TROUPE_KERNELS_RANDOM_DISTRIBUTIONS_H_
#define TROUPE_KERNELS_RANDOM_DISTRIBUTIONS_H_

#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/random/philox.h"
#include "troupe/half.h"

namespace troupe::random {

// How many Philox results an op may use per number that it makes.
inline constexpr int kReserved = 256;

// Uniform in [0, 1) with as many bits as the mantissa has.
inline float UniformFloat(uint32_t x) { return std::bit_cast<float>(127u << 23 | (x & 0x7fffffu)) - 1.0f; }
inline double UniformDouble(uint32_t x0, uint32_t x1) {
  return std::bit_cast<double>(uint64_t{1023} << 52 | uint64_t{x0 & 0xfffffu} << 32 | x1) - 1.0;
}
inline Half UniformHalf(uint32_t x) {
  return Half::FromBits(static_cast<uint16_t>(15u << 10 | (x & 0x3ffu))) - Half(1.0f);
}
inline BFloat16 UniformBFloat16(uint32_t x) {
  return BFloat16::FromBits(static_cast<uint16_t>(127u << 7 | (x & 0x7fu))) - BFloat16(1.0f);
}

// Two standard normal numbers of two uniform ones (Box and Muller).
void BoxMuller(uint32_t x0, uint32_t x1, float* f0, float* f1);
void BoxMuller(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, double* d0, double* d1);

template <class T>
struct Uniform {
  static constexpr bool kVariable = false;
  static constexpr int kGroup = std::is_same_v<T, double> ? 2 : 4;
  static constexpr double kCost = 1.5;
  void operator()(Philox& philox, T* out) const {
    const Philox::Words x = philox();
    if constexpr (std::is_same_v<T, double>) {
      for (int i = 0; i < 2; ++i) out[i] = UniformDouble(x[2 * i], x[2 * i + 1]);
    } else if constexpr (std::is_same_v<T, float>) {
      for (int i = 0; i < 4; ++i) out[i] = UniformFloat(x[i]);
    } else if constexpr (std::is_same_v<T, Half>) {
      for (int i = 0; i < 4; ++i) out[i] = UniformHalf(x[i]);
    } else {
      for (int i = 0; i < 4; ++i) out[i] = UniformBFloat16(x[i]);
    }
  }
};

// Uniform integers in [low, low + range), with the slight bias of a remainder.
template <class T>
struct UniformInt {
  static constexpr bool kVariable = false;
  static constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;
  static constexpr double kCost = 2;
  using Unsigned = std::make_unsigned_t<T>;
  UniformInt(T low, T high) : low(low), range(static_cast<Unsigned>(high) - static_cast<Unsigned>(low)) {}
  void operator()(Philox& philox, T* out) const {
    const Philox::Words x = philox();
    for (int i = 0; i < kGroup; ++i) {
      Unsigned bits;
      if constexpr (sizeof(T) == 8) {
        bits = static_cast<uint64_t>(x[2 * i + 1]) << 32 | x[2 * i];
      } else {
        bits = x[i];
      }
      out[i] = static_cast<T>(static_cast<Unsigned>(low) + bits % range);
    }
  }
  T low;
  Unsigned range;
};

template <class T>
struct Normal {
  static constexpr bool kVariable = false;
  static constexpr int kGroup = std::is_same_v<T, double> ? 2 : 4;
  static constexpr double kCost = 15;
  void operator()(Philox& philox, T* out) const {
    const Philox::Words x = philox();
    if constexpr (std::is_same_v<T, double>) {
      BoxMuller(x[0], x[1], x[2], x[3], &out[0], &out[1]);
    } else {
      float f[4];
      BoxMuller(x[0], x[1], &f[0], &f[1]);
      BoxMuller(x[2], x[3], &f[2], &f[3]);
      for (int i = 0; i < 4; ++i) out[i] = T(f[i]);
    }
  }
};

// Standard normal numbers, those beyond 2 drawn again.
template <class T>
struct TruncatedNormal {
  static constexpr bool kVariable = true;
  static constexpr int kGroup = std::is_same_v<T, double> ? 2 : 4;
  static constexpr double kCost = 30;
  void operator()(PhiloxWords& words, T* out) const {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (int n = 0;;) {
      Wide pair[2];
      const uint32_t x0 = words(), x1 = words();
      if constexpr (std::is_same_v<T, double>) {
        const uint32_t x2 = words(), x3 = words();
        BoxMuller(x0, x1, x2, x3, &pair[0], &pair[1]);
      } else {
        BoxMuller(x0, x1, &pair[0], &pair[1]);
      }
      for (Wide v : pair) {
        if (std::abs(v) >= Wide(2)) continue;
        out[n++] = T(v);
        if (n == kGroup) return;
      }
    }
  }
};

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_DISTRIBUTIONS_H_
