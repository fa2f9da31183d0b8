// CRC32C (Castagnoli), the checksum of record files, tables and checkpoints.
//
// Thread rule: pure functions.
#ifndef TROUPE_GRAPH_FILES_CRC32C_H_
#define TROUPE_GRAPH_FILES_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace troupe::files {

// Of `bytes`, or of what `crc` is the checksum of followed by them.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);
// As Crc32c, without the processor's instruction for it. For tests.
uint32_t PortableCrc32c(std::string_view bytes, uint32_t crc = 0);

// Files hold checksums masked: the checksum of bytes that contain their own checksum is a constant.
inline uint32_t MaskCrc(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t UnmaskCrc(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_CRC32C_H_
