// A trace as `troupe run --trace` and Timeline (troupe/timeline.h) write it, read for what the
// critical path needs: the runs of nodes, and what each of them waited for.
//
// The file is read event by event, so that besides its text there is only what is kept of it, which
// is less. Events of other programs, and rows of which nothing is needed, are passed over.
//
// Thread rule: plain values.
#ifndef TROUPE_TOOLS_TROUPE_TRACE_FILE_H_
#define TROUPE_TOOLS_TROUPE_TRACE_FILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "net/json.h"
#include "troupe/status.h"

namespace troupe::tool {

// Times are nanoseconds since the file's begin, and so small that sums and differences of a few of
// them are in range. `after` and `from` are of the same step.
struct TraceRun {
  enum class Kind : uint8_t { kKernel, kReceive, kQueue, kWait };
  int64_t id = 0, after = 0, from = 0;  // ids of runs; 0: none
  int64_t start = 0, end = 0, queued = 0;
  int64_t step = 0;
  uint32_t task = 0;                                                      // in TraceFile::tasks
  uint32_t node = 0, op = 0, device = 0, waits_for = 0, from_device = 0;  // in TraceFile::texts
  int line = 0;
  Kind kind = Kind::kKernel;
};
struct TraceStep {
  int64_t number = 0;
  std::string name;
  uint32_t task = 0;  // of its master
  int64_t begin = 0, end = 0;
  int64_t last = 0;  // the run that ended last; 0: it has none
  int line = 0;
};
struct TraceTask {
  std::string name;
  int64_t pid = 0;
  bool named = false;                   // by the file; otherwise after its pid
  int64_t offset = 0, uncertainty = 0;  // of its clock
};
struct TraceFile {
  std::vector<std::string> texts;
  std::vector<TraceTask> tasks;  // in the order in which events name them
  std::vector<TraceStep> steps;  // in the order of their numbers
  std::vector<TraceRun> runs;    // in the order of their ids
  // Null when there is none.
  const TraceRun* Find(int64_t id) const;
};

// So far from 0 may times be, and counts; clocks may be kMostOffset apart.
inline constexpr int64_t kMostTrace = int64_t{1} << 53, kMostOffset = 1'000'000'000'000'000'000;

// INVALID_ARGUMENT names file, line and column of what is no JSON, or not as it should be.
// RESOURCE_EXHAUSTED for more than a GiB.
absl::StatusOr<TraceFile> ReadTrace(const std::string& path);

// The same of a text. For those who want the events themselves: what stands around them, and one
// after the other.
struct TraceHead {
  std::string master;  // "" and 0: it does not say
  int64_t origin = 0;  // the master's clock at the file's begin, in nanoseconds
};
absl::Status ReadEvents(std::string_view text, TraceHead* head, const std::function<absl::Status(JsonValue&)>& each);
absl::StatusOr<std::string> ReadTraceText(const std::string& path);
absl::StatusOr<TraceFile> ParseTrace(std::string_view text);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_TRACE_FILE_H_
