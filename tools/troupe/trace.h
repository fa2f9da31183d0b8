// What ran when, for chrome://tracing and Perfetto.
#ifndef TROUPE_TOOLS_TROUPE_TRACE_H_
#define TROUPE_TOOLS_TROUPE_TRACE_H_

#include <string>

#include "troupe/status.h"

namespace troupe::proto {
class RunMetadata;
}

namespace troupe::tool {

// One process a device, with these rows; one event a node. Times begin at the first node.
//
//   executor                        stretches in which the executor ran nodes without a pause
//   executor: kernels in its turn   these nodes
//   thread N                        nodes that ran as jobs, by thread
//   checkpointer                    nodes that save and restore, wherever they ran
//   queues                          nodes on queues, readers, tables and the like, and their waits
//   receives                        waits for another device's tensor
//   waits                           waits for variables and files
//
// Of the last four, what overlaps has further rows: "queues 2".
absl::Status WriteTrace(const proto::RunMetadata& metadata, const std::string& path);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_TRACE_H_
