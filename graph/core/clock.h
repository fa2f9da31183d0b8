// Nanoseconds of the steady clock, as a number: for measuring, not for deadlines (StepClock), which
// a test may move.
//
// Thread rule: any thread.
#ifndef TROUPE_GRAPH_CORE_CLOCK_H_
#define TROUPE_GRAPH_CORE_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace troupe {

inline int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_CLOCK_H_
