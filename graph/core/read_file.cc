#include "graph/core/read_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

namespace troupe {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound(path, ": ", std::strerror(errno));
  // The stream's own operator turns what the buffer throws into a state; an empty file sets that too, but has come to its end.
  if (file.peek() == std::ifstream::traits_type::eof()) {
    if (file.bad()) return InvalidArgument(path, ": it cannot be read");
    return std::string();
  }
  // In pieces, into a string: a string stream holds 2 GiB and no more. What has a size gets it at
  // once.
  std::string bytes;
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  constexpr size_t kPiece = size_t{1} << 20;
  try {
    if (!error && size > 0) bytes.reserve(size + 1);
    for (size_t have = 0;;) {
      bytes.resize(have + kPiece <= bytes.capacity() || have == 0 ? have + kPiece : std::max(2 * have, have + kPiece));
      file.read(bytes.data() + have, static_cast<std::streamsize>(bytes.size() - have));
      have += static_cast<size_t>(file.gcount());
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
