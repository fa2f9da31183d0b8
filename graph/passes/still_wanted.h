// Tells a pass whether any caller still waits for its result.
//
// Problem: the passes over a graph of a million nodes take seconds. Meanwhile the deadline of every
// waiting caller may pass, or the session may be closed.
//
// Contract: a pass takes a StillWanted among its options: a function that returns an error when no
// caller waits any more; null means that one always does. The pass calls it about once in a
// thousand steps, on its own thread, and returns the error. The graph is then left half changed and
// must not be used.
//
// Thread rule: a WantedCheck belongs to the thread of its pass.
#ifndef TROUPE_GRAPH_PASSES_STILL_WANTED_H_
#define TROUPE_GRAPH_PASSES_STILL_WANTED_H_

#include <functional>

#include "troupe/status.h"

namespace troupe {

using StillWanted = const std::function<absl::Status()>*;

// Counts steps and asks once in a while.
class WantedCheck {
 public:
  explicit WantedCheck(StillWanted wanted) : wanted_(wanted != nullptr && *wanted ? wanted : nullptr) {}
  // Once a step.
  absl::Status operator()() {
    if (wanted_ == nullptr || (steps_++ & 1023) != 0) return absl::OkStatus();
    return (*wanted_)();
  }
  // Before a step that may take long itself.
  absl::Status Now() const { return wanted_ == nullptr ? absl::OkStatus() : (*wanted_)(); }

 private:
  StillWanted wanted_;
  unsigned steps_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_STILL_WANTED_H_
