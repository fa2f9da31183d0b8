#include "kernels/parse/farm_hash.h"

#include <bit>
#include <cstring>
#include <utility>

namespace troupe::parse {
namespace {

// Little-endian words, as FarmHash defines them.
uint64_t Word64(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}
uint64_t Word32(const char* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}
uint64_t Fold(uint64_t v) { return v ^ (v >> 47); }
uint64_t Turn(uint64_t v, int by) { return std::rotr(v, by); }

// Three primes between 2^63 and 2^64.
constexpr uint64_t kA = 0xc3a5c85c97cb3127, kB = 0xb492b66fbe98f273, kC = 0x9ae16a3b2f90404f;

uint64_t Mix(uint64_t u, uint64_t v, uint64_t by) {
  const uint64_t a = Fold((u ^ v) * by);
  return Fold((v ^ a) * by) * by;
}

uint64_t Upto16(const char* s, size_t n) {
  if (n >= 8) {
    const uint64_t by = kC + n * 2, a = Word64(s) + kC, b = Word64(s + n - 8);
    return Mix(Turn(b, 37) * by + a, (Turn(a, 25) + b) * by, by);
  }
  if (n >= 4) return Mix(n + (Word32(s) << 3), Word32(s + n - 4), kC + n * 2);
  if (n == 0) return kC;
  const auto a = static_cast<uint8_t>(s[0]), b = static_cast<uint8_t>(s[n >> 1]), c = static_cast<uint8_t>(s[n - 1]);
  const uint32_t y = static_cast<uint32_t>(a) + (static_cast<uint32_t>(b) << 8);
  const uint32_t z = static_cast<uint32_t>(n) + (static_cast<uint32_t>(c) << 2);
  return Fold(y * kC ^ z * kA) * kC;
}

uint64_t Upto32(const char* s, size_t n) {
  const uint64_t by = kC + n * 2, a = Word64(s) * kB, b = Word64(s + 8);
  const uint64_t c = Word64(s + n - 8) * by, d = Word64(s + n - 16) * kC;
  return Mix(Turn(a + b, 43) + Turn(c, 30) + d, a + Turn(b + kC, 18) + c, by);
}

uint64_t Upto64(const char* s, size_t n) {
  const uint64_t by = kC + n * 2, a = Word64(s) * kC, b = Word64(s + 8);
  const uint64_t c = Word64(s + n - 8) * by, d = Word64(s + n - 16) * kC;
  const uint64_t y = Turn(a + b, 43) + Turn(c, 30) + d, z = Mix(y, a + Turn(b + kC, 18) + c, by);
  const uint64_t e = Word64(s + 16) * by, f = Word64(s + 24);
  const uint64_t g = (y + Word64(s + n - 32)) * by, h = (z + Word64(s + n - 24)) * by;
  return Mix(Turn(e + f, 43) + Turn(g, 30) + h, e + Turn(f + a, 18) + g, by);
}

using Pair = std::pair<uint64_t, uint64_t>;
// 32 bytes and two seeds.
Pair WeakHash(const char* s, uint64_t a, uint64_t b) {
  const uint64_t w = Word64(s), x = Word64(s + 8), y = Word64(s + 16), z = Word64(s + 24);
  a += w;
  b = Turn(b + a + z, 21);
  const uint64_t c = a;
  a += x + y;
  b += Turn(a, 44);
  return {a + z, b + c};
}

}  // namespace

uint64_t Fingerprint64(std::string_view text) {
  const char* s = text.data();
  const size_t n = text.size();
  if (n <= 16) return Upto16(s, n);
  if (n <= 32) return Upto32(s, n);
  if (n <= 64) return Upto64(s, n);
  // 56 bytes of state, 64 bytes of text a round; the last round is the last 64 bytes.
  constexpr uint64_t kSeed = 81;
  uint64_t x = kSeed, y = kSeed * kB + 113, z = Fold(y * kC + 113) * kC;
  Pair v = {0, 0}, w = {0, 0};
  x = x * kC + Word64(s);
  const char* const end = s + (n - 1) / 64 * 64;
  const char* const last = end + ((n - 1) & 63) - 63;
  do {
    x = Turn(x + y + v.first + Word64(s + 8), 37) * kB;
    y = Turn(y + v.second + Word64(s + 48), 42) * kB;
    x ^= w.second;
    y += v.first + Word64(s + 40);
    z = Turn(z + w.first, 33) * kB;
    v = WeakHash(s, v.second * kB, x + w.first);
    w = WeakHash(s + 32, z + w.second, y + Word64(s + 16));
    std::swap(z, x);
    s += 64;
  } while (s != end);
  const uint64_t by = kB + ((z & 0xff) << 1);
  s = last;
  w.first += (n - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  x = Turn(x + y + v.first + Word64(s + 8), 37) * by;
  y = Turn(y + v.second + Word64(s + 48), 42) * by;
  x ^= w.second * 9;
  y += v.first * 9 + Word64(s + 40);
  z = Turn(z + w.first, 33) * by;
  v = WeakHash(s, v.second * by, x + w.first);
  w = WeakHash(s + 32, z + w.second, y + Word64(s + 16));
  std::swap(z, x);
  return Mix(Mix(v.first, w.first, by) + Fold(y) * kA + z, Mix(v.second, w.second, by) + x, by);
}

uint64_t MurmurHash64(std::string_view text) {
  constexpr uint64_t kBy = 0xc6a4a7935bd1e995, kSeed = 0xDECAFCAFFE;
  uint64_t h = kSeed ^ (text.size() * kBy);
  while (text.size() >= 8) {
    uint64_t k = Word64(text.data()) * kBy;
    k ^= k >> 47;
    h = (h ^ k * kBy) * kBy;
    text.remove_prefix(8);
  }
  if (!text.empty()) {
    uint64_t rest = 0;
    for (size_t i = text.size(); i-- > 0;) rest = rest << 8 | static_cast<uint8_t>(text[i]);
    h = (h ^ rest) * kBy;
  }
  h = Fold(h) * kBy;
  return Fold(h);
}

uint64_t SipHash(uint64_t key0, uint64_t key1, std::string_view text) {
  uint64_t a = key0 ^ 0x736f6d6570736575, b = key1 ^ 0x646f72616e646f6d;
  uint64_t c = key0 ^ 0x6c7967656e657261, d = key1 ^ 0x7465646279746573;
  const auto rounds = [&](int n) {
    while (n-- > 0) {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
  };
  const auto absorb = [&](uint64_t word) {
    d ^= word;
    rounds(2);
    a ^= word;
  };
  uint64_t last = static_cast<uint64_t>(text.size()) << 56;
  for (; text.size() >= 8; text.remove_prefix(8)) absorb(Word64(text.data()));
  for (size_t i = 0; i < text.size(); ++i) last |= static_cast<uint64_t>(static_cast<uint8_t>(text[i])) << (8 * i);
  absorb(last);
  c ^= 0xff;
  rounds(4);
  return a ^ b ^ c ^ d;
}

}  // namespace troupe::parse
