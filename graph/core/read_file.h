// A file's bytes, or why there are none.
//
// std::ifstream opens a folder without an error and throws when it is read; users name folders by mistake.
#ifndef TROUPE_GRAPH_CORE_READ_FILE_H_
#define TROUPE_GRAPH_CORE_READ_FILE_H_

#include <string>

#include "troupe/status.h"

namespace troupe {

// NOT_FOUND when `path` cannot be opened, INVALID_ARGUMENT when it cannot be read (a folder); both name the path. From any thread.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_READ_FILE_H_
