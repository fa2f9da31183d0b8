#include "graph/core/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

namespace troupe {

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound(path, ": ", std::strerror(errno));
  // The stream's own operator turns what the buffer throws into a state; an empty file sets that
  // too, but has come to its end.
  if (file.peek() == std::ifstream::traits_type::eof()) {
    if (file.bad()) return InvalidArgument(path, ": it cannot be read");
    return std::string();
  }
  // In pieces, into a string: a string stream holds 2 GiB and no more. What has a size gets it at
  // once.
  std::string bytes;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!error) most = std::max<uint64_t>(most, size);
  constexpr size_t kPiece = size_t{1} << 20;
  try {
    if (!error && size > 0) bytes.reserve(size + 1);
    for (size_t have = 0;;) {
      const size_t next =
          have + kPiece <= bytes.capacity() || have == 0 ? have + kPiece : std::max(2 * have, have + kPiece);
      // One byte more, to see that there are more.
      bytes.resize(static_cast<size_t>(std::min<uint64_t>(next, most + 1)));
      file.read(bytes.data() + have, static_cast<std::streamsize>(bytes.size() - have));
      have += static_cast<size_t>(file.gcount());
      if (have > most) return InvalidArgument(path, ": it has more than ", most, " bytes");
      if (file) continue;
      if (file.bad()) return InvalidArgument(path, ": it cannot be read");
      bytes.resize(have);
      return bytes;
    }
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(path, ": no memory for its bytes");
  } catch (const std::length_error&) {
    return ResourceExhausted(path, ": no memory for its bytes");
  }
}

}  // namespace troupe
