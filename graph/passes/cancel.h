// When a pass is left before its end.
//
// Problem: the passes over a graph of a million nodes take seconds, and whoever waits for them may
// have gone by then: his deadline has passed, or the session was closed.
//
// Contract: a pass takes a CancelFlag among its options; null: never. It looks at it once in a
// thousand steps or so, and returns CANCELLED when it is set. What it has changed by then is left as
// it is, so the graph is good for nothing any more.
//
// Thread rule: any thread may set the flag, which outlives the pass.
#ifndef TROUPE_GRAPH_PASSES_CANCEL_H_
#define TROUPE_GRAPH_PASSES_CANCEL_H_

#include <atomic>

#include "troupe/graph/core/status.h"

namespace troupe {

using CancelFlag = const std::atomic<bool>*;

// Counts steps and looks once in a while.
class CancelCheck {
 public:
  explicit CancelCheck(CancelFlag flag) : flag_(flag) {}
  // True when the pass should be left.
  bool operator()() { return flag_ != nullptr && (steps_++ & 1023) == 0 && Now(); }
  // Looks at once: before a step that may take long itself.
  bool Now() const { return flag_ != nullptr && flag_->load(std::memory_order_relaxed); }

 private:
  CancelFlag flag_;
  unsigned steps_ = 0;
};

// What a pass that was left returns.
inline absl::Status CompileAbandoned() { return Cancelled("nobody waits for the step's compilation any more"); }

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_CANCEL_H_
