// Several traces of one run as one: of workers, each of which is the master of its own steps and
// measures them by its own clock.
//
// Clocks are told by tasks that two files have, as each worker and its parameter server: a file has
// the offset of each of its tasks from its master, so two files tell the offset between their
// masters, and how far that may be off. Events move to the clock of the first file's master. Steps,
// events and arrows are numbered anew, and a task that was there before gets rows of its own for
// each file.
//
// Thread rule: a pure function, but for the files.
#ifndef TROUPE_TOOLS_TROUPE_TRACE_MERGE_H_
#define TROUPE_TOOLS_TROUPE_TRACE_MERGE_H_

#include <string>
#include <vector>

#include "troupe/status.h"

namespace troupe::tool {

// The text of the whole. INVALID_ARGUMENT as ReadTrace, and names the file whose clock cannot be
// told, since it shares no task with those before it.
absl::StatusOr<std::string> MergeTraces(const std::vector<std::string>& paths);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_TRACE_MERGE_H_
