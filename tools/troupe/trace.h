// What ran when, for chrome://tracing and Perfetto.
#ifndef TROUPE_TOOLS_TROUPE_TRACE_H_
#define TROUPE_TOOLS_TROUPE_TRACE_H_

#include <string>

#include "troupe/status.h"

namespace troupe::proto {
class RunMetadata;
}

namespace troupe::tool {

// One process a device, one thread a thread, one event a node. Times begin at the first node.
absl::Status WriteTrace(const proto::RunMetadata& metadata, const std::string& path);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_TRACE_H_
