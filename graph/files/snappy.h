// Reads blocks that Snappy compressed: tables of other writers have them. Troupe writes none.
//
// Thread rule: a pure function.
#ifndef TROUPE_GRAPH_FILES_SNAPPY_H_
#define TROUPE_GRAPH_FILES_SNAPPY_H_

#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe::files {

// DATA_LOSS for anything that is not a whole, well-formed block. A block of n bytes gives less than
// 22 n, so memory is bounded by what is read.
absl::StatusOr<std::string> Unsnappy(std::string_view block);

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_SNAPPY_H_
