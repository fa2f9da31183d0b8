#include "net/network_loop.h"

#include <sched.h>

#include <algorithm>

#include "actors/threads/loop_turns.h"

namespace troupe {

void NetworkLoop::run() {
  while (num_socket_handlers() > 0) {
    poll_once(true);
    if (LoopTurns::TakeRan() && score_.Pays()) Look();
  }
}

void NetworkLoop::Look() {
  using Clock = std::chrono::steady_clock;
  const uint64_t before = LoopTurns::Messages();
  Clock::time_point until = Clock::now() + kLook;
  const Clock::time_point end = until + 3 * kLook;
  for (bool late = false; num_socket_handlers() > 0;) {
    if (poll_once(false)) {
      // One for which others have kept this thread waiting would have woken it sooner.
      if (LoopTurns::Messages() != before) return score_.Saw(!late);
      // Something that this process sends: the answer may come soon.
      until = std::min(Clock::now() + kLook, end);
      late = false;
      continue;
    }
    if (late) return score_.Saw(false);
    const Clock::time_point asked = Clock::now();
    sched_yield();
    const Clock::time_point now = Clock::now();
    if (now - asked > kSlice) return score_.Busy();
    late = now > until;
  }
}

}  // namespace troupe
