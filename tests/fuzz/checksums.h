// Puts the checksums of damaged files right, so that a fuzzer comes to what lies behind them: a
// reader that finds a wrong one looks at nothing else.
//
// Thread rule: pure functions.
#ifndef TROUPE_TESTS_FUZZ_CHECKSUMS_H_
#define TROUPE_TESTS_FUZZ_CHECKSUMS_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "graph/files/coding.h"
#include "graph/files/crc32c.h"

namespace troupe::fuzz {

// Of bytes [begin, end), written behind them. REQUIRES: there are four bytes more.
inline void PutChecksum(std::string* file, size_t begin, size_t end) {
  const uint32_t crc = files::MaskCrc(files::Crc32c(std::string_view(*file).substr(begin, end - begin)));
  for (size_t i = 0; i < 4; ++i) (*file)[end + i] = static_cast<char>(crc >> 8 * i);
}

// Of a record file, as far as its lengths lead: 8 bytes of length, checksum, the record, checksum.
inline std::string RecordsWithChecksums(std::string file) {
  for (size_t at = 0; file.size() - at >= 16;) {
    PutChecksum(&file, at, at + 8);
    uint64_t length = 0;
    for (size_t i = 8; i > 0; --i) length = length << 8 | static_cast<uint8_t>(file[at + i - 1]);
    if (length > file.size() - at - 16) break;
    PutChecksum(&file, at + 12, at + 12 + static_cast<size_t>(length));
    at += 16 + static_cast<size_t>(length);
  }
  return file;
}

// Of a table (graph/files/table.h): the blocks that the footer names, and those of the index.
inline std::string TableWithChecksums(std::string file) {
  constexpr size_t kFooter = 48;
  if (file.size() < kFooter) return file;
  struct Block {
    size_t begin = 0, size = 0;
  };
  // A block that lies in the file, with its type and checksum.
  const auto take = [&](std::string_view* handle, Block* block) {
    uint64_t begin = 0, size = 0;
    if (!files::GetVarint(handle, &begin) || !files::GetVarint(handle, &size)) return false;
    if (begin > file.size() || size > file.size() - begin || file.size() - begin - size < 5) return false;
    *block = {static_cast<size_t>(begin), static_cast<size_t>(size)};
    PutChecksum(&file, block->begin, block->begin + block->size + 1);
    return true;
  };
  const std::string footer = file.substr(file.size() - kFooter);
  std::string_view handles = footer;
  Block meta, index;
  if (!take(&handles, &meta) || !take(&handles, &index)) return file;
  const std::string entries = file.substr(index.begin, index.size);
  for (std::string_view rest = entries; !rest.empty();) {
    uint64_t shared = 0, own = 0, length = 0;
    if (!files::GetVarint(&rest, &shared) || !files::GetVarint(&rest, &own) || !files::GetVarint(&rest, &length)) break;
    if (own > rest.size() || length > rest.size() - own) break;
    std::string_view handle = rest.substr(static_cast<size_t>(own), static_cast<size_t>(length));
    rest.remove_prefix(static_cast<size_t>(own + length));
    Block data;
    if (!take(&handle, &data)) break;
  }
  return file;
}

}  // namespace troupe::fuzz

#endif  // TROUPE_TESTS_FUZZ_CHECKSUMS_H_
