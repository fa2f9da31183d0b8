#include "troupe/graph/core/read_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

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
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (file.bad() || bytes.bad()) return InvalidArgument(path, ": it cannot be read");
  return std::move(bytes).str();
}

}  // namespace troupe
