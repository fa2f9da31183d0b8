// Files that are there whole or not at all.
#ifndef TROUPE_TOOLS_TROUPE_WRITE_FILE_H_
#define TROUPE_TOOLS_TROUPE_WRITE_FILE_H_

#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe::tool {

// Writes the pieces, one after the other, under another name in the folder of `path`, and renames
// that when all is on the disk. On an error a file that was at `path` is what it was, and nothing
// else is left behind. What is no plain file (/dev/stdout, a pipe) is written as it is. INTERNAL
// names the path and the reason.
absl::Status WriteFile(const std::string& path, absl::Span<const std::string_view> pieces);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_WRITE_FILE_H_
