// What a step's time was spent on: its critical path, and its stalls.
//
// The critical path goes from the step's end back to its begin: from the run that ended last to
// what it waited for last, and so on. A node that receives waited for the one that sends, if that
// was not done before it asked; any other node, for the one whose end made it ready. So the order
// is that of what waits for what; times only tell how long the parts are, and may be equal. What
// lies between the parts of the path is a stall. So the parts fill the step, and a step can be made
// shorter only where its path is:
//
//   compute          a node ran
//   communication    a tensor passed between tasks; the step's message to another task, and the answer
//   copy             a tensor passed between devices of a task
//   queueing         a node was ready and did not run; the answer of the master's own task
//   synchronisation  a node waited for a queue, a variable or the like
//
// Parts of different tasks may overlap by the uncertainty of their clocks; each ends where the next
// one begins, so what they overlap counts for the later one.
//
// Source: critical path analysis of program activity graphs (Yang and Miller, ICDCS 1988).
//
// Thread rule: pure functions.
#ifndef TROUPE_TOOLS_TROUPE_CRITICAL_PATH_H_
#define TROUPE_TOOLS_TROUPE_CRITICAL_PATH_H_

#include <cstdint>
#include <vector>

#include "tools/troupe/trace_file.h"

namespace troupe::tool {

enum class Spent : uint8_t { kCompute, kCommunication, kCopy, kQueueing, kSynchronisation };
const char* NameOf(Spent what);

struct PathPart {
  Spent what = Spent::kCompute;
  const TraceRun* run = nullptr;  // who ran or waited; null: the step's answer
  int64_t begin = 0, end = 0;
  bool of_step = false;  // communication: the step's message to another task, or the answer; no tensor
};
// In the order of time. INVALID_ARGUMENT when runs wait for each other in a circle.
absl::StatusOr<std::vector<PathPart>> CriticalPath(const TraceFile& file, const TraceStep& step);

// A time for which a node did not run although its step could have gone on with it.
struct Stall {
  Spent what = Spent::kQueueing;
  const TraceRun* run = nullptr;
  int64_t nanos = 0;
};
// The longest of these steps, the longest first.
std::vector<Stall> LongestStalls(const TraceFile& file, const std::vector<const TraceStep*>& steps, size_t most);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_CRITICAL_PATH_H_
