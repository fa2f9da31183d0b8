// What the steps of one signature do with queues, barriers and accumulators, for a snapshot that is
// a cut between steps (step_gate.h): which of them they take elements from, and which they fill;
// and whether they update other state. The ops say it by their traits (kElementsHandle and those
// that follow it in troupe/op_def.h), so users' ops count, too. "Queue" below stands for all three.
//
// A step that fills a queue may wait for room as long as nobody takes elements. If nothing of the
// step can have an effect after that wait, the step counts as done while it waits: what it is to
// put in is saved with the queue. Such a signature parks. If nothing of a step can have an effect
// before the wait for its elements, the step counts as not begun while all its first takes wait.
//
// Thread rule: a plain value; Of is a pure function.
#ifndef TROUPE_ACTORS_SNAPSHOT_QUEUE_USE_H_
#define TROUPE_ACTORS_SNAPSHOT_QUEUE_USE_H_

#include <set>
#include <string>
#include <vector>

#include "troupe/graph.h"

namespace troupe {

struct QueueUse {
  // The nodes that make the queues' handles, by container and shared name or name.
  std::set<std::string> takes, fills;
  // Some node changes a variable, a table, or whatever else outlives the step and is no queue: it
  // takes a reference or a handle, and no trait says that it has no effect.
  bool updates = false;
  bool parks = false;
  bool fills_at_once = false;  // it fills, and nothing that fills ever waits
  // The nodes at which a step that waits counts as done (any of them) or as not begun (all).
  std::set<std::string> ends, begins;

  // Of the graph of a signature.
  static QueueUse Of(const Graph& graph);
  // Whether a step that waits in just these kernels, and of which nothing else runs, is in the cut
  // as a whole or not at all.
  bool RestsAt(const std::set<std::string>& waits) const;
  bool CanRest() const { return !ends.empty() || !begins.empty(); }
  // Whether its steps may be held back later than those that fill nothing.
  bool Ordered() const { return parks || fills_at_once; }
  // An order in which steps can be held back, so that each of them comes to its end or parks:
  // first those that fill nothing, or fill in the middle of what they do (0); a step that fills a
  // queue has a higher number than those that take from it. Of two steps that feed each other one
  // has the higher number.
  static std::vector<int> Order(const std::vector<const QueueUse*>& uses);
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SNAPSHOT_QUEUE_USE_H_
