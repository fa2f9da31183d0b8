// A file system of the program's, behind one whose calls throw nothing: what it throws becomes a
// status with the path. So the library's files need no other guard.
//
// Thread rule: that of the file system.
#ifndef TROUPE_GRAPH_FILES_GUARDED_FILES_H_
#define TROUPE_GRAPH_FILES_GUARDED_FILES_H_

#include <memory>

#include "troupe/files.h"

namespace troupe::files {

// INTERNAL, too, for a file that was opened and is null.
std::shared_ptr<FileSystem> GuardedFileSystem(std::shared_ptr<FileSystem> system);

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_GUARDED_FILES_H_
