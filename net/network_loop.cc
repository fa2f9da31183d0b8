#include "net/network_loop.h"

#include <sched.h>

#include <algorithm>
#include <optional>

#include "actors/threads/loop_turns.h"

namespace troupe {

void NetworkLoop::run() {
  std::optional<Clock::time_point> since;  // the message before had been dealt with
  while (num_socket_handlers() > 0) {
    poll_once(true);
    while (const std::optional<Clock::time_point> came = LoopTurns::TakeRan()) {
      if (since) score_.Saw(*came - *since);
      since = Clock::now();
      if (score_.Pays() && !Look(*since)) since.reset();
    }
  }
}

bool NetworkLoop::Look(Clock::time_point since) {
  Clock::time_point until = since + kLook;
  const Clock::time_point end = until + kLook;
  while (num_socket_handlers() > 0) {
    if (poll_once(false)) {
      if (LoopTurns::HasRan()) return true;
      // Something that this process sends: the answer may come soon.
      until = std::min(Clock::now() + kLook, end);
    }
    const Clock::time_point asked = Clock::now();
    if (asked > until) return true;
    sched_yield();
    if (Clock::now() - asked > kSlice) {
      score_.Busy();
      return false;
    }
  }
  return true;
}

}  // namespace troupe
