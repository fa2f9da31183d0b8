// Reads a whole file.
//
// std::ifstream opens a folder without an error and throws when it is read; users name folders by
// mistake.
//
// files::Read (troupe/files.h) knows schemes, but reads at offsets, which a pipe and a device do
// not have. This function is for a path without a scheme that a user names: of a graph, or on a
// command line.
#ifndef TROUPE_GRAPH_CORE_READ_FILE_H_
#define TROUPE_GRAPH_CORE_READ_FILE_H_

#include <cstdint>
#include <string>

#include "troupe/status.h"

namespace troupe {

// The most bytes that are read of a file without a size of its own (a device or a pipe may never
// end).
inline constexpr uint64_t kMostWithoutSize = (uint64_t{1} << 31) - 1;

// NOT_FOUND when `path` cannot be opened; INVALID_ARGUMENT when it cannot be read (a folder), or
// has more bytes than both its size, as the file system tells it, and `most`, of which no more are
// read; RESOURCE_EXHAUSTED without memory for them. All name the path. From any thread.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most = kMostWithoutSize);

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_READ_FILE_H_
