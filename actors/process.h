// Which process this is, counted by forks. Threads do not survive a fork, so what was made before
// belongs to the parent alone: in the child its calls are refused, and its end does nothing. What
// is made in the child is good there.
#ifndef TROUPE_ACTORS_PROCESS_H_
#define TROUPE_ACTORS_PROCESS_H_

#include <atomic>

#include "troupe/status.h"

namespace troupe {

extern std::atomic<int> process_number;

// Forks are counted from the first call on.
void CountForks();
inline int ThisProcess() { return process_number.load(std::memory_order_relaxed); }
// `what`: "session".
absl::Status OfAnotherProcess(std::string_view what);

}  // namespace troupe

#endif  // TROUPE_ACTORS_PROCESS_H_
