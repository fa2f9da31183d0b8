// Which servers a SessionOptions.target names.
//
// Thread rule: pure functions.
#ifndef TROUPE_NET_TARGET_H_
#define TROUPE_NET_TARGET_H_

#include <string_view>
#include <vector>

#include "troupe/cluster.h"

namespace troupe {

// "troupe://host:port[,host:port...]"; INVALID_ARGUMENT says what is wrong.
absl::StatusOr<std::vector<HostPort>> ParseTarget(std::string_view target);

}  // namespace troupe

#endif  // TROUPE_NET_TARGET_H_
