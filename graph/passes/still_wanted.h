// Whether somebody still waits for what a pass does.
//
// Problem: the passes over a graph of a million nodes take seconds, and whoever waits for them may
// have gone by then: his deadline has passed, or the session was closed.
//
// Contract: a pass takes a StillWanted among its options: a function that gives an error when
// nobody waits any more; null: somebody always does. The pass calls it once in a thousand steps or
// so, on its own thread, and returns the error. What it has changed by then is left as it is, so
// the graph is good for nothing any more.
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
