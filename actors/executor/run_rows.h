// The rows of a step's statistics: on which line of a timeline a node's run stands
// (node_run::thread). Thread rule: thread safe.
#ifndef TROUPE_ACTORS_EXECUTOR_RUN_ROWS_H_
#define TROUPE_ACTORS_EXECUTOR_RUN_ROWS_H_

#include <cstdint>
#include <string>

#include "troupe/strings.h"

namespace troupe::rows {

inline constexpr uint32_t kTurn = 0;  // in the executor's turn
// The wait of a kernel for others: for queues, readers and the like, for variables, for files, for
// another part's tensor. Such waits overlap.
inline constexpr uint32_t kAsynchronous = 1u << 20;
// Those between: jobs, by thread. The number of the calling thread; the first that asks is 1.
uint32_t OfThisThread();

inline std::string Name(uint32_t row) {
  if (row == kTurn) return "executor: kernels in its turn";
  if (row == kAsynchronous) return "waiting for others";
  return StrCat("thread ", row);
}

}  // namespace troupe::rows

#endif  // TROUPE_ACTORS_EXECUTOR_RUN_ROWS_H_
