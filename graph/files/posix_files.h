// The disk, as a file system.
//
// The operations and their errors are those of troupe/files.h. Thread rule: as there.
#ifndef TROUPE_GRAPH_FILES_POSIX_FILES_H_
#define TROUPE_GRAPH_FILES_POSIX_FILES_H_

#include <memory>

#include "troupe/files.h"

namespace troupe::files {

std::shared_ptr<FileSystem> NewPosixFileSystem();

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_POSIX_FILES_H_
