// Philox4x32-10: a random stream that is a function of a key and a counter (Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3").
//
// Any place of the stream is reached in constant time, so threads fill ranges of one sequence
// independently. The layout of seeds in key and counter, and what is made of the bits
// (distributions.h), are TensorFlow's, so that equal seeds give its numbers.
//
// Thread rule: a plain value.
#ifndef TROUPE_KERNELS_RANDOM_PHILOX_H_
#define TROUPE_KERNELS_RANDOM_PHILOX_H_

#include <array>
#include <cstdint>

namespace troupe::random {

class Philox {
 public:
  using Words = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;
  static constexpr int kWords = 4;

  Philox() = default;
  explicit Philox(uint64_t seed, uint64_t seed2 = 0)
      : counter_{0, 0, Low(seed2), High(seed2)}, key_{Low(seed), High(seed)} {}
  Philox(const Words& counter, const Key& key) : counter_(counter), key_(key) {}

  // The next 128 bits.
  Words operator()() {
    Words c = counter_;
    Key k = key_;
    for (int round = 0; round < 9; ++round) {
      Round(&c, k);
      k[0] += 0x9E3779B9u;
      k[1] += 0xBB67AE85u;
    }
    Round(&c, k);
    Skip(1);
    return c;
  }
  // Passes over `count` results.
  void Skip(uint64_t count) {
    const uint64_t low = Join(counter_[0], counter_[1]) + count;
    counter_[0] = Low(low);
    counter_[1] = High(low);
    if (low < count && ++counter_[2] == 0) ++counter_[3];
  }
  const Words& counter() const { return counter_; }
  const Key& key() const { return key_; }

 private:
  static constexpr uint32_t Low(uint64_t v) { return static_cast<uint32_t>(v); }
  static constexpr uint32_t High(uint64_t v) { return static_cast<uint32_t>(v >> 32); }
  static constexpr uint64_t Join(uint32_t low, uint32_t high) { return static_cast<uint64_t>(high) << 32 | low; }
  static void Round(Words* c, const Key& k) {
    const uint64_t a = uint64_t{0xD2511F53u} * (*c)[0], b = uint64_t{0xCD9E8D57u} * (*c)[2];
    *c = {High(b) ^ (*c)[1] ^ k[0], Low(b), High(a) ^ (*c)[3] ^ k[1], Low(a)};
  }

  Words counter_ = {};
  Key key_ = {};
};

// One word at a time.
class PhiloxWords {
 public:
  explicit PhiloxWords(const Philox& philox) : philox_(philox) {}
  uint32_t operator()() {
    if (used_ == Philox::kWords) {
      words_ = philox_();
      used_ = 0;
    }
    return words_[used_++];
  }

 private:
  Philox philox_;
  Philox::Words words_ = {};
  int used_ = Philox::kWords;
};

}  // namespace troupe::random

#endif  // TROUPE_KERNELS_RANDOM_PHILOX_H_
