// Statuses of failed file operations: the code that fits an error number, and the path.
//
// Thread rule: a pure function.
#ifndef TROUPE_GRAPH_FILES_FILE_ERROR_H_
#define TROUPE_GRAPH_FILES_FILE_ERROR_H_

#include <string_view>

#include "troupe/status.h"

namespace troupe::files {

// "PATH: DOING: text of the error number", with the code that fits it.
absl::Status FileError(int error_number, std::string_view path, std::string_view doing);

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_FILE_ERROR_H_
