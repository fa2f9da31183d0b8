#include "graph/files/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace troupe::files {
namespace {

// Eight tables: one look-up for each of eight bytes.
using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables MakeTables() {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82f63b78u : 0);
    t[0][i] = c;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (size_t k = 1; k < 8; ++k) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 255];
  }
  return t;
}
constexpr Tables kTables = MakeTables();

uint32_t ByTables(const char* p, size_t n, uint32_t c) {
  if constexpr (std::endian::native == std::endian::little) {
    for (; n >= 8; p += 8, n -= 8) {
      uint64_t w;
      std::memcpy(&w, p, 8);
      w ^= c;
      c = 0;
      for (size_t k = 0; k < 8; ++k) c ^= kTables[7 - k][(w >> (8 * k)) & 255];
    }
  }
  for (; n > 0; ++p, --n) c = (c >> 8) ^ kTables[0][(c ^ static_cast<uint8_t>(*p)) & 255];
  return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ByInstruction(const char* p, size_t n, uint32_t crc) {
  uint64_t c = crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t w;
    std::memcpy(&w, p, 8);
    c = __builtin_ia32_crc32di(c, w);
  }
  uint32_t d = static_cast<uint32_t>(c);
  for (; n > 0; ++p, --n) d = __builtin_ia32_crc32qi(d, static_cast<unsigned char>(*p));
  return d;
}
const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
#endif

}  // namespace

uint32_t PortableCrc32c(std::string_view bytes, uint32_t crc) { return ~ByTables(bytes.data(), bytes.size(), ~crc); }

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (kHasInstruction) return ~ByInstruction(bytes.data(), bytes.size(), ~crc);
#endif
  return PortableCrc32c(bytes, crc);
}

}  // namespace troupe::files
