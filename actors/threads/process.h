// Numbers the processes of a program by its forks.
//
// Threads do not survive a fork, so objects that were made before a fork belong to the parent
// alone: in the child their calls are refused, and their destructors do nothing. Objects that the
// child makes work there.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_ACTORS_THREADS_PROCESS_H_
#define TROUPE_ACTORS_THREADS_PROCESS_H_

#include <atomic>

#include "troupe/status.h"

namespace troupe {

extern std::atomic<int> process_number;

// Starts to count forks.
void CountForks();
inline int ThisProcess() { return process_number.load(std::memory_order_relaxed); }
// FAILED_PRECONDITION for a call of a parent's object in the child. `what`: "session".
absl::Status OfAnotherProcess(std::string_view what);

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_PROCESS_H_
