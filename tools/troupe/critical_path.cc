#include "tools/troupe/critical_path.h"

#include <algorithm>
#include <set>

#include "troupe/strings.h"

namespace troupe::tool {
namespace {

Spent CrossingOf(const TraceRun& from, const TraceRun& to) {
  return from.task == to.task ? Spent::kCopy : Spent::kCommunication;
}

// From the step's end back. What is added ends where what was added before begins.
class Walk {
 public:
  Walk(const TraceFile& file, const TraceStep& step) : file_(file), step_(step), at_(step.end) {}

  absl::StatusOr<std::vector<PathPart>> Go() {
    const TraceRun* run = file_.Find(step_.last);
    if (run != nullptr && run->end < at_)
      Add(run->task == step_.task ? Spent::kQueueing : Spent::kCommunication, nullptr, run->end, true);
    std::set<int64_t> seen;
    while (run != nullptr) {
      if (!seen.insert(run->id).second)
        return InvalidArgument("line ", run->line, ": event ", run->id, " waits for itself, by way of others");
      run = Before(*run);
    }
    std::reverse(parts_.begin(), parts_.end());
    return std::move(parts_);
  }

 private:
  void Add(Spent what, const TraceRun* run, int64_t begin, bool of_step = false) {
    begin = std::max(begin, step_.begin);
    if (begin >= at_) return;
    parts_.push_back({what, run, begin, at_, of_step});
    at_ = begin;
  }
  // Adds a run and what came between it and what it waited for, which it returns.
  const TraceRun* Before(const TraceRun& run) {
    at_ = std::min(at_, std::max(run.end, step_.begin));
    const TraceRun* const from = run.from != 0 ? file_.Find(run.from) : nullptr;
    if (from != nullptr && from->end >= run.start) {
      Add(CrossingOf(*from, run), &run, from->end);
      return from;
    }
    const Spent what = run.kind == TraceRun::Kind::kKernel    ? Spent::kCompute
                       : run.kind != TraceRun::Kind::kReceive ? Spent::kSynchronisation
                       : from != nullptr                      ? CrossingOf(*from, run)
                                                              : Spent::kCommunication;
    Add(what, &run, run.start);
    const TraceRun* const after = run.after != 0 ? file_.Find(run.after) : nullptr;
    if (after != nullptr) {
      Add(Spent::kQueueing, &run, after->end);
    } else {
      // From the step's begin on: on its way to another task, and in the queue of its executor.
      const int64_t ready = run.start - run.queued;
      Add(Spent::kQueueing, &run, run.task == step_.task ? step_.begin : ready);
      Add(Spent::kCommunication, &run, step_.begin, true);
    }
    return after;
  }

  const TraceFile& file_;
  const TraceStep& step_;
  int64_t at_;
  std::vector<PathPart> parts_;  // the last one first
};

}  // namespace

const char* NameOf(Spent what) {
  switch (what) {
    case Spent::kCompute:
      return "compute";
    case Spent::kCommunication:
      return "communication";
    case Spent::kCopy:
      return "copy";
    case Spent::kQueueing:
      return "queueing";
    case Spent::kSynchronisation:
      return "synchronisation";
  }
  return "";
}

absl::StatusOr<std::vector<PathPart>> CriticalPath(const TraceFile& file, const TraceStep& step) {
  return Walk(file, step).Go();
}

std::vector<Stall> LongestStalls(const TraceFile& file, const std::vector<const TraceStep*>& steps, size_t most) {
  std::set<int64_t> wanted;
  for (const TraceStep* s : steps) wanted.insert(s->number);
  std::vector<Stall> stalls;
  const auto add = [&](Spent what, const TraceRun& run, int64_t nanos) {
    if (nanos > 0) stalls.push_back({what, &run, nanos});
  };
  for (const TraceRun& r : file.runs) {
    if (!wanted.contains(r.step)) continue;
    add(Spent::kQueueing, r, r.queued);
    if (r.kind == TraceRun::Kind::kQueue || r.kind == TraceRun::Kind::kWait)
      add(Spent::kSynchronisation, r, r.end - r.start);
    const TraceRun* const from = r.from != 0 ? file.Find(r.from) : nullptr;
    // Before it was sent, the tensor was being made.
    if (from != nullptr) add(CrossingOf(*from, r), r, r.end - std::max(r.start, from->end));
  }
  std::stable_sort(stalls.begin(), stalls.end(), [](const Stall& a, const Stall& b) { return a.nanos > b.nanos; });
  if (stalls.size() > most) stalls.resize(most);
  return stalls;
}

}  // namespace troupe::tool
