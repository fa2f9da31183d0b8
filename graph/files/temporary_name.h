// Names for files that are not finished: a file is written under such a name, synced, and renamed
// when it is whole.
//
// Thread rule: any thread.
#ifndef TROUPE_GRAPH_FILES_TEMPORARY_NAME_H_
#define TROUPE_GRAPH_FILES_TEMPORARY_NAME_H_

#include <string>
#include <string_view>

namespace troupe::files {

// A name beside `path` that no other call of this process, and none of another one that runs,
// gives.
std::string TemporaryName(std::string_view path);

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_TEMPORARY_NAME_H_
