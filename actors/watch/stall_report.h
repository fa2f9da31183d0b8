// Reports what a step waits for, the culprit first.
//
// Every part of the step is asked (StepQuestion) and answers in its turn which nodes run or wait in
// it (wire/step_report.h). A receive in one part waits for a node of another; followed from
// part to part, each wait ends at a culprit: a kernel that runs, a feed that has not come, a part
// that does not answer because its turn does not end, or a part that has ended without sending. A
// report has one line for each culprit, oldest first; below it stand the nodes that wait for it,
// each for the one above:
//
//   node 'w' (Wait) on /job:a/task:0/device:CPU:1 has run for 3.2 s
//     <- node 'w/_send' (_Send) on /job:a/task:0/device:CPU:1 has waited 3.2 s for input 0 'tensor' from 'w:0' (running)
//     <- node 'w/_recv' (_Recv) on /job:a/task:0/device:CPU:0 has waited 3.2 s for tensor 'edge_3_w' of /job:a/task:0/device:CPU:1
//     <- node 'z' (Add) on /job:a/task:0/device:CPU:0 has waited 3.2 s for input 1 'y' from 'w/_recv:0' (waiting for a tensor)
//
// A kernel, a receive, a feed and a held value know when their wait began. For a node that waits
// for inputs the report gives the time since its part last ran any node.
//
// Thread rule: StallLines is a pure function; a question's methods are thread safe.
#ifndef TROUPE_ACTORS_WATCH_STALL_REPORT_H_
#define TROUPE_ACTORS_WATCH_STALL_REPORT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "actors/executor/compiled_part.h"
#include "actors/wire/part_messages.h"

namespace troupe {

class Executor;

struct PartAnswer {
  std::shared_ptr<const CompiledPart> part;  // null: another process runs it
  std::string device = {};                   // of such a part
  std::optional<StepReport> report;
  std::string silent;  // without a report: what the part is known to do
};

// At most `limit` lines and one that says how many were left out.
std::vector<std::string> StallLines(const std::vector<PartAnswer>& parts, size_t limit = 40);

class LocalTransport;
class StepQuestion;

// The questions that the parts of one set have been asked, by number. A report that nobody asked
// for, or no longer, is dropped.
//
// Thread rule: all methods are thread safe.
class OpenQuestions {
 public:
  // The number of a question. Throws std::bad_alloc.
  int64_t Add(const std::shared_ptr<StepQuestion>& asks);
  void Answered(int64_t number, uint32_t part, StepReport report);

 private:
  std::mutex mu_;
  int64_t last_ = 0;
  std::vector<std::pair<int64_t, std::weak_ptr<StepQuestion>>> asked_;
};

// One question to all parts of a step: it goes out as the message `question`, and each part answers
// by `stall_report`.
class StepQuestion : public std::enable_shared_from_this<StepQuestion> {
 public:
  explicit StepQuestion(const std::vector<std::shared_ptr<Executor>>& parts);
  // Asks all parts, also those that other processes run. REQUIRES: the step's executors are not
  // released meanwhile; called once. `answered` is called once, when all parts have answered, in
  // the turn of the last one; it is not called if an executor dies with the question, or this
  // object is gone. For an executor that is dead already the answer is that its part is over.
  // False, and `answered` is never called, when that holds for all parts; so Ask itself calls
  // nothing.
  bool Ask(LocalTransport* transport, std::function<void(const std::shared_ptr<StepQuestion>&)> answered);
  // The report made of the answers that have come so far.
  std::vector<std::string> Lines() const;
  // The nodes whose kernels wait for what they have asked, if all parts have answered and nothing
  // else of the step runs or can run; else none.
  std::set<std::string> OnlyWaits() const;
  // One part's; the first one counts.
  void Answered(uint32_t part, StepReport report);
  // Who holds memory of this device, as far as its parts have answered.
  std::vector<MemoryHolder> HoldersOn(const std::string& device) const;

 private:
  const std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
  std::vector<std::weak_ptr<Executor>> executors_;
  mutable std::mutex mu_;
  std::vector<PartAnswer> parts_;
  size_t left_;
  std::function<void(const std::shared_ptr<StepQuestion>&)> answered_;
};

// Asks and waits for the answers, 100 ms at most. REQUIRES: as Ask; not called in an executor's
// turn.
std::vector<std::string> AskAndWait(const std::vector<std::shared_ptr<Executor>>& parts, LocalTransport* transport);

// "step 7 (y:0) has made no progress for 100 ms; it waits for:\n  ..."
std::string StallText(int64_t step_id, const std::string& what, int64_t ms, const std::vector<std::string>& lines);
// "the step did not end within 50 ms; it waits for:\n  ..."
absl::Status DeadlineStatus(int64_t timeout_ms, const std::vector<std::string>& lines);

}  // namespace troupe

#endif  // TROUPE_ACTORS_WATCH_STALL_REPORT_H_
